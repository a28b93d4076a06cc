package dir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// tempPrefix is what the names of temporary files begin with. They stand beside the archive that they become.
	tempPrefix = "." + archiveName + "-"
	// attempts bounds how often a lost race with another process is run again.
	attempts = 100
	// staleAge is when a temporary file that nobody writes to counts as left behind, where files can't be locked.
	staleAge = 24 * time.Hour
)

// errLocked says that somebody else has the lock of a file.
var errLocked = errors.New("locked")

// temp is the temporary file of an entry. It is locked as long as its writer lives, so that others can tell.
type temp struct {
	root      *os.Root
	key, name string // name is the path below root
	file      *os.File
}

// newTemp makes a temporary file in the directory of key.
func newTemp(root *os.Root, key string) (*temp, error) {
	for range attempts {
		name := filepath.Join(key, tempPrefix+rand.Text())
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return nil, err
		}
		t := &temp{root, key, name, f}
		if t.claim() {
			return t, nil
		}
		t.discard()
	}
	return nil, fmt.Errorf("making a temporary file for %s: others take it for stale", key)
}

// claim locks the file. It is lost where another process took it for stale between its making and its locking.
func (t *temp) claim() bool {
	if err := tryLock(t.file); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return false
	}
	ours, err := t.file.Stat()
	if err != nil {
		return false
	}
	there, err := t.root.Lstat(t.name)
	return err == nil && os.SameFile(ours, there)
}

// publish gives the file its final name, if that is still free: an entry stays as it is, and both are whole. Where the
// system can, that is one step, which leaves no temporary name behind however the process ends.
func (t *temp) publish() error {
	if err := t.file.Sync(); err != nil {
		return err
	}
	dir, err := t.root.Open(t.key)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = renameNew(dir, filepath.Base(t.name), archiveName)
	if errors.Is(err, errors.ErrUnsupported) {
		err = t.link()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	_ = dir.Sync() // as in syncDir
	return nil
}

// link gives the file its final name in the two steps that every Unix has, or, on a file system without hard links, in
// one that replaces an entry of another process by its like.
func (t *temp) link() error {
	final := filepath.Join(t.key, archiveName)
	err := t.root.Link(t.name, final)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		return t.root.Rename(t.name, final)
	}
	return err
}

// discard removes the temporary name, if it is still there, and lets the file go.
func (t *temp) discard() {
	_ = t.root.Remove(t.name)
	t.file.Close()
}

// staleTemps are the temporary files in the directory name whose writers are gone, as paths below root.
func staleTemps(root *os.Root, name string) []string {
	files, err := fs.ReadDir(root.FS(), name)
	if err != nil {
		return nil
	}
	var stale []string
	for _, f := range files {
		path := filepath.Join(name, f.Name())
		if !f.Type().IsRegular() || !strings.HasPrefix(f.Name(), tempPrefix) {
			continue
		}
		if err := ifStale(root, path, func() error { return nil }); err == nil {
			stale = append(stale, path)
		}
	}
	return stale
}

// removeStale removes a temporary file whose writer is gone. One that is in use is errLocked, and one that is not there
// fs.ErrNotExist.
func removeStale(root *os.Root, name string) error {
	return ifStale(root, name, func() error { return root.Remove(name) })
}

// ifStale calls do while it holds the lock of a temporary file. Its writer can't take the lock then, if it is just about
// to, and so finds out that the file is gone. Where there are no locks, a file is stale when it is old.
func ifStale(root *os.Root, name string, do func() error) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := tryLock(f); err == nil {
		return do()
	} else if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if time.Since(info.ModTime()) <= staleAge {
		return errLocked
	}
	return do()
}
