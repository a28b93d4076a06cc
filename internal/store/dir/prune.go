package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pullonce/pullonce/internal/store"
)

// PruneOptions say what Prune removes beside superseded generations and stale temporary files.
type PruneOptions struct {
	// Keep says whether the entry of a key stays; nil keeps every key.
	Keep func(key string) bool
	// OlderThan removes entries that were saved longer ago; 0 is no limit.
	OlderThan time.Duration
	// DryRun removes nothing: the result is what would be removed.
	DryRun bool
}

// Reason is why a file is pruned.
type Reason string

// The reasons, in the order in which they are looked for.
const (
	Superseded Reason = "superseded" // a newer generation is there
	NotKept    Reason = "not kept"   // PruneOptions.Keep does not want it
	Old        Reason = "old"        // older than PruneOptions.OlderThan
	Stale      Reason = "stale"      // a temporary file whose writer is gone
)

// Pruned is one file that Prune removed, or would remove.
type Pruned struct {
	Key        string
	Generation int
	// Path is the file.
	Path string
	// Size is the file's, in bytes.
	Size   int64
	Reason Reason
}

// Prune removes what is of no use any more, sorted by key. An image that was opened before stays readable. A file that
// can't be removed is an error, and the others are removed all the same.
func (s *Store) Prune(ctx context.Context, o PruneOptions) ([]Pruned, error) {
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

// choose finds the files to remove, with paths below root.
func (o PruneOptions) choose(root *os.Root) ([]Pruned, error) {
	entries, err := list(root, anyKey)
	if err != nil {
		return nil, err
	}
	var doomed []Pruned
	for i, e := range entries {
		superseded := i+1 < len(entries) && entries[i+1].Key == e.Key
		if reason := o.reason(e, superseded); reason != "" {
			path := filepath.Join(store.Generation(e.Key, e.Generation), archiveName)
			doomed = append(doomed, Pruned{e.Key, e.Generation, path, e.Size, reason})
		}
	}
	stale, err := chooseStale(root)
	return append(doomed, stale...), err
}

// reason is why e goes; "" is that it stays.
func (o PruneOptions) reason(e store.Entry, superseded bool) Reason {
	switch {
	case superseded:
		return Superseded
	case o.Keep != nil && !o.Keep(e.Key):
		return NotKept
	case o.OlderThan > 0 && time.Since(e.Saved) > o.OlderThan:
		return Old
	}
	return ""
}

func chooseStale(root *os.Root) ([]Pruned, error) {
	dirs, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var doomed []Pruned
	for _, dir := range dirs {
		if checkKey(dir.Name()) != nil {
			continue
		}
		key, n := store.ParseGeneration(dir.Name())
		for _, path := range staleTemps(root, dir.Name()) {
			if info, err := root.Lstat(path); err == nil {
				doomed = append(doomed, Pruned{key, n, path, info.Size(), Stale})
			}
		}
	}
	return doomed, nil
}

// remove removes the files, and the directories that are empty then.
func (o PruneOptions) remove(ctx context.Context, root *os.Root, doomed []Pruned) (pruned []Pruned, err error) {
	if o.DryRun {
		return doomed, nil
	}
	for _, p := range doomed {
		if ctx.Err() != nil {
			return pruned, errors.Join(err, ctx.Err())
		}
		remove := (*os.Root).Remove
		if p.Reason == Stale {
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
