package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pullonce/pullonce/internal/store"
)

// Prune implements store.Managed. An image that was opened before stays readable.
func (s *Store) Prune(ctx context.Context, options store.PruneOptions) ([]store.Pruned, error) {
	o := pruning{options}
	root, err := s.openRoot(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pruning %s: %w", s.path, err)
	}
	defer root.Close()
	doomed, err := o.choose(root)
	if err != nil {
		return nil, fmt.Errorf("pruning %s: %w", s.path, err)
	}
	pruned, err := o.remove(ctx, root, doomed)
	for i := range pruned {
		pruned[i].Path = filepath.Join(s.path, pruned[i].Path)
	}
	if err != nil {
		return pruned, fmt.Errorf("pruning %s: %w", s.path, err)
	}
	return pruned, nil
}

// pruning is one Prune.
type pruning struct{ store.PruneOptions }

// choose finds the files to remove, with paths below root.
func (o pruning) choose(root *os.Root) ([]store.Pruned, error) {
	entries, err := list(root, anyKey)
	if err != nil {
		return nil, err
	}
	var doomed []store.Pruned
	for i, e := range entries {
		superseded := i+1 < len(entries) && entries[i+1].Key == e.Key
		if reason := o.Reason(e, superseded); reason != "" {
			path := filepath.Join(store.Generation(e.Key, e.Generation), archiveName)
			doomed = append(doomed, store.Pruned{Key: e.Key, Generation: e.Generation, Path: path, Size: e.Size, Reason: reason})
		}
	}
	stale, err := chooseStale(root)
	return append(doomed, stale...), err
}

func chooseStale(root *os.Root) ([]store.Pruned, error) {
	dirs, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var doomed []store.Pruned
	for _, dir := range dirs {
		if checkKey(dir.Name()) != nil {
			continue
		}
		key, n := store.ParseGeneration(dir.Name())
		for _, path := range staleTemps(root, dir.Name()) {
			if info, err := root.Lstat(path); err == nil {
				doomed = append(doomed, store.Pruned{Key: key, Generation: n, Path: path, Size: info.Size(), Reason: store.Stale})
			}
		}
	}
	return doomed, nil
}

// remove removes the files, and the directories that are empty then.
func (o pruning) remove(ctx context.Context, root *os.Root, doomed []store.Pruned) (pruned []store.Pruned, err error) {
	if o.DryRun {
		return doomed, nil
	}
	for _, p := range doomed {
		if ctx.Err() != nil {
			return pruned, errors.Join(err, ctx.Err())
		}
		remove := (*os.Root).Remove
		if p.Reason == store.Stale {
			remove = removeStale
		}
		switch e := remove(root, p.Path); {
		case e == nil:
			pruned = append(pruned, p)
			removeEmpty(root, filepath.Dir(p.Path))
		case !errors.Is(e, fs.ErrNotExist) && !errors.Is(e, errLocked): // somebody else may prune as well
			err = errors.Join(err, e)
		}
	}
	return pruned, err
}
