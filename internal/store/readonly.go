package store

import (
	"context"
	"errors"
)

// ErrReadOnly says that a store does not let this run save. What is there can be read.
var ErrReadOnly = errors.New("read-only")

// Guard is what a Store also is where it can tell beforehand whether it lets this run save.
type Guard interface {
	// Writable says whether Save can succeed, as far as that is known without asking, and if not, why.
	Writable(ctx context.Context) (ok bool, reason string)
}

// Proving is what a Store also is whose Save ends with a look-up: what it says to have saved was found there, in that
// generation or a later one, and need not be looked up again.
type Proving interface {
	// ProvesSaves says that it does.
	ProvesSaves() bool
}
