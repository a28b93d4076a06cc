package dir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pullonce/pullonce/internal/image"
)

// Save implements store.Store. The archive is written to a temporary file beside its place, verified as it is written,
// synced, and renamed: a process that is killed leaves a temporary file and no entry. The next Save of the key, and
// Prune, remove it. A full disk is an error with syscall.ENOSPC in its chain.
func (s *Store) Save(ctx context.Context, key string, img image.Image) error {
	if err := s.save(ctx, key, img); err != nil {
		return fmt.Errorf("saving %s in %s: %w", key, s.path, err)
	}
	return nil
}

func (s *Store) save(ctx context.Context, key string, img image.Image) error {
	if err := cmp.Or(ctx.Err(), checkKey(key)); err != nil {
		return err
	}
	root, err := s.makeRoot()
	if err != nil {
		return err
	}
	defer root.Close()
	t, err := reserve(root, key)
	if t == nil || err != nil {
		return err
	}
	defer removeEmpty(root, key)
	defer t.discard()
	if err := s.encode(ctx, t.file, img); err != nil {
		return err
	}
	if err := t.publish(); err != nil {
		return err
	}
	syncDir(root)
	return nil
}

// makeRoot makes and opens the store's directory. What is in it is nothing for git.
func (s *Store) makeRoot() (*os.Root, error) {
	if err := os.MkdirAll(s.path, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(s.path)
	if err != nil {
		return nil, err
	}
	if _, err := root.Lstat(".gitignore"); err == nil {
		return root, nil
	}
	if err := root.WriteFile(".gitignore", []byte("*\n"), 0o644); err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// reserve makes the temporary file of a new entry; nil where the entry is there already. Prune removes a directory
// that is empty, also one that was just made here, so that it may have to be made again.
func reserve(root *os.Root, key string) (*temp, error) {
	for range attempts {
		if err := root.Mkdir(key, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		for _, name := range staleTemps(root, key) {
			// One that stays does no harm: the next Save tries again.
			_ = removeStale(root, name)
		}
		if _, err := root.Lstat(filepath.Join(key, archiveName)); err == nil {
			return nil, nil
		}
		t, err := newTemp(root, key)
		if err == nil {
			return t, nil
		}
		removeEmpty(root, key)
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("its directory is removed again and again: %w", fs.ErrNotExist)
}

// removeEmpty removes the directory name if nothing is in it.
func removeEmpty(root *os.Root, name string) {
	if info, err := root.Lstat(name); err == nil && info.IsDir() {
		_ = root.Remove(name)
	}
}

// syncDir makes a new name in dir survive a power cut. Where the file system can't, the entry is whole all the same,
// if it is there.
func syncDir(dir *os.Root) {
	if f, err := dir.Open("."); err == nil {
		_ = f.Sync()
		f.Close()
	}
}
