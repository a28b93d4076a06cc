// Package dir keeps images in a directory: one archive per entry, as <path>/<key>/image.tar. It owns the files, their
// atomic publication and their removal, and is safe between processes on one host. It does not know what an archive
// holds, nor where images come from.
package dir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/store"
)

// archiveName is the file that is an entry.
const archiveName = "image.tar"

// validKey is what a key may be: one visible path segment that means the same on every file system.
var validKey = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

var _ store.Managed = (*Store)(nil)

// Store is a store.Store in a directory. Safe for concurrent use, also by several processes.
type Store struct {
	path string
	// encode writes an image's archive: image.EncodeAt.
	encode func(context.Context, io.WriterAt, image.Image) error
}

// New is the store in the directory at path, which Save makes when it is not there. Nothing is touched before.
func New(path string) (*Store, error) {
	if path == "" {
		return nil, errors.New("a directory store needs a path")
	}
	return &Store{path: path, encode: image.EncodeAt}, nil
}

// Path is the file that holds the entry of key, whether or not it is there. Key may be a generation of one.
func (s *Store) Path(key string) string { return filepath.Join(s.path, key, archiveName) }

// Stat implements store.Store. Saved is the modification time of the archive. Its head is read and its length held to
// that: an archive that was cut short is store.ErrCorrupt. The layers are not read.
func (s *Store) Stat(ctx context.Context, key string) (store.Entry, error) {
	entry, f, err := s.openFile(ctx, key)
	if err == nil {
		defer f.Close()
		_, err = decode(ctx, f, image.Decode)
	}
	if err != nil {
		return entry, fmt.Errorf("looking %s up in %s: %w", key, s.path, err)
	}
	return entry, nil
}

// Open implements store.Store. The image keeps the archive's file open until ctx ends, so that it stays readable while
// the entry is replaced or pruned.
func (s *Store) Open(ctx context.Context, key string) (image.Image, error) {
	_, f, err := s.openFile(ctx, key)
	if err != nil {
		return image.Image{}, fmt.Errorf("opening %s in %s: %w", key, s.path, err)
	}
	img, err := decode(ctx, f, image.Decode)
	if err != nil {
		f.Close()
		return image.Image{}, fmt.Errorf("opening %s: %w", f.Name(), err)
	}
	context.AfterFunc(ctx, func() { f.Close() })
	return img, nil
}

// Inspect implements store.Managed.
func (s *Store) Inspect(ctx context.Context, key string) (store.Inspection, error) {
	entry, f, err := s.openFile(ctx, key)
	if errors.Is(err, store.ErrCorrupt) {
		return store.Inspection{Entry: entry, Path: s.Path(store.Generation(key, entry.Generation)), Problem: err}, nil
	}
	if err != nil {
		return store.Inspection{}, fmt.Errorf("inspecting %s in %s: %w", key, s.path, err)
	}
	context.AfterFunc(ctx, func() { f.Close() })
	found := store.Inspection{Entry: entry, Path: f.Name()}
	if found.Image, err = decode(ctx, f, image.Decode); err == nil {
		_, err = decode(ctx, f, image.VerifyArchive)
	}
	if found.Problem = err; err != nil && !errors.Is(err, store.ErrCorrupt) {
		return store.Inspection{}, fmt.Errorf("inspecting %s: %w", f.Name(), err)
	}
	return found, nil
}

// List implements store.Managed.
func (s *Store) List(ctx context.Context) ([]store.Entry, error) {
	root, err := s.openRoot(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", s.path, err)
	}
	defer root.Close()
	entries, err := list(root, anyKey)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", s.path, err)
	}
	return entries, nil
}

// openRoot opens the store's directory. No directory is store.ErrNotFound.
func (s *Store) openRoot(ctx context.Context) (*os.Root, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, store.ErrNotFound
	}
	return root, err
}

func checkKey(key string) error {
	if !validKey.MatchString(key) {
		return fmt.Errorf("invalid key %q", key)
	}
	return nil
}

// openFile opens the archive of key's newest generation. That one may be pruned between the look-up and the opening,
// so that a second look is needed.
func (s *Store) openFile(ctx context.Context, key string) (store.Entry, *os.File, error) {
	if err := checkKey(key); err != nil {
		return store.Entry{}, nil, err
	}
	root, err := s.openRoot(ctx)
	if err != nil {
		return store.Entry{}, nil, err
	}
	defer root.Close()
	for range 3 {
		entry, err := newest(root, key)
		if err != nil {
			return store.Entry{}, nil, err
		}
		f, err := openRegular(root, filepath.Join(store.Generation(key, entry.Generation), archiveName))
		if !errors.Is(err, fs.ErrNotExist) {
			return entry, f, err
		}
	}
	return store.Entry{}, nil, store.ErrNotFound
}

// openRegular opens a plain file. Anything else under the name is corrupt: a symbolic link would leave the entry, a
// pipe would block.
func openRegular(root *os.Root, name string) (*os.File, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no plain file", store.ErrCorrupt, name)
	}
	return root.Open(name)
}

// decode reads the archive in f. What is wrong with its bytes is store.ErrCorrupt; what is wrong with reading is not.
func decode(ctx context.Context, f *os.File, read func(context.Context, io.ReaderAt, int64) (image.Image, error)) (image.Image, error) {
	info, err := f.Stat()
	if err != nil {
		return image.Image{}, err
	}
	img, err := read(ctx, f, info.Size())
	if errors.Is(err, image.ErrVerify) {
		return image.Image{}, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return img, err
}

// newest is the newest generation of key. None is store.ErrNotFound.
func newest(root *os.Root, key string) (store.Entry, error) {
	entries, err := list(root, generationsOf(key))
	if err != nil {
		return store.Entry{}, err
	}
	if len(entries) == 0 {
		return store.Entry{}, store.ErrNotFound
	}
	return entries[len(entries)-1], nil
}

// selection takes the name of a directory apart and says whether it is wanted.
type selection func(name string) (key string, n int, wanted bool)

func anyKey(name string) (string, int, bool) {
	key, n := store.ParseGeneration(name)
	return key, n, true
}

// generationsOf selects key itself, whatever it looks like, and its generations.
func generationsOf(key string) selection {
	return func(name string) (string, int, bool) {
		if name == key {
			return key, 0, true
		}
		base, n := store.ParseGeneration(name)
		return base, n, base == key
	}
}

// list is the selected entries, sorted by key and generation.
func list(root *os.Root, selected selection) ([]store.Entry, error) {
	dirs, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var entries []store.Entry
	for _, dir := range dirs {
		key, n, wanted := selected(dir.Name())
		if !wanted || checkKey(dir.Name()) != nil {
			continue
		}
		info, err := root.Lstat(filepath.Join(dir.Name(), archiveName))
		if missing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, store.Entry{Key: key, Generation: n, Size: info.Size(), Saved: info.ModTime()})
	}
	slices.SortFunc(entries, func(a, b store.Entry) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Generation, b.Generation))
	})
	return entries, nil
}

// missing says whether err means that there is no such file, or that a plain file stands where its directory would be.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
