package store

import (
	"context"
	"errors"
	"time"

	"github.com/pullonce/pullonce/internal/image"
)

// ErrNoPlace says that there is no such place as a store is in: nothing was ever saved there, or its name is mistyped.
var ErrNoPlace = errors.New("no such place")

// Managed is what a Store also is where its entries can be listed, read to the last byte, and removed. Safe for
// concurrent use.
type Managed interface {
	Store
	// List is every entry, each generation by itself, sorted by key and generation. A store that was never saved to is
	// empty, or ErrNoPlace.
	List(ctx context.Context) ([]Entry, error)
	// Inspect reads the whole of key's newest generation. A miss is ErrNotFound; what is wrong with an entry that is there
	// is no error but its Problem. The image's layers can be read until ctx ends.
	Inspect(ctx context.Context, key string) (Inspection, error)
	// Prune removes what is of no use any more, sorted by key. What can't be removed is an error, and the rest is removed
	// all the same. A store that was never saved to is as in List.
	Prune(ctx context.Context, o PruneOptions) ([]Pruned, error)
}

// Inspection is what Inspect finds.
type Inspection struct {
	Entry Entry
	// Path is where the entry is: a file, or a reference.
	Path string
	// Image is the zero value where what is before the layers can't be used.
	Image image.Image
	// Problem is nil where every byte of the entry is right, and ErrCorrupt where one is not.
	Problem error
}

// PruneOptions say what Prune removes beside what nobody can reach any more.
type PruneOptions struct {
	// Keep says whether the entry of a key stays; nil keeps every key.
	Keep func(key string) bool
	// OlderThan removes entries that were saved longer ago; 0 is no limit.
	OlderThan time.Duration
	// DryRun removes nothing: the result is what would be removed.
	DryRun bool
}

// PruneReason is why something is pruned.
type PruneReason string

// The reasons, in the order in which they are looked for.
const (
	Superseded PruneReason = "superseded" // a newer generation is there
	NotKept    PruneReason = "not kept"   // PruneOptions.Keep does not want it
	Old        PruneReason = "old"        // older than PruneOptions.OlderThan
	Stale      PruneReason = "stale"      // a temporary file whose writer is gone
)

// Reason is why e goes; "" is that it stays. Superseded says that a newer generation of its key is there.
func (o PruneOptions) Reason(e Entry, superseded bool) PruneReason {
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

// Pruned is one thing that Prune removed, or would remove.
type Pruned struct {
	Key        string
	Generation int
	// Path is the file, or the reference.
	Path string
	// Size is that of the file, or of the entry, in bytes.
	Size   int64
	Reason PruneReason
}
