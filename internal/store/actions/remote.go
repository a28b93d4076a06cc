package actions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pullonce/pullonce/internal/retry"
	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/store/actions/entry"
)

// remote is an entry that is there. Its signed URL is fetched anew when the blob store does not take it any more. Safe
// for concurrent use.
type remote struct {
	store        *Store
	key, version string // the key with its generation
	generation   int
	size         int64

	mu     sync.Mutex
	signed string
}

var _ entry.Blob = (*remote)(nil)

// head asks for size and time.
func (r *remote) head(ctx context.Context) (size int64, modified time.Time, err error) {
	err = r.again(ctx, func(ctx context.Context, signed string) (err error) {
		size, modified, err = r.store.storage.head(ctx, signed)
		return err
	})
	return size, modified, err
}

// prefix reads up to n bytes from the start, and learns the size.
func (r *remote) prefix(ctx context.Context, n int) (data []byte, err error) {
	err = r.again(ctx, func(ctx context.Context, signed string) (err error) {
		data, r.size, err = r.store.storage.get(ctx, signed, 0, n, nil)
		return err
	})
	if f, ok := errors.AsType[*fault](err); ok && f.status == statusEmpty {
		return nil, fmt.Errorf("%w: it is empty", store.ErrCorrupt)
	}
	return data, err
}

// statusEmpty answers a range of what has no bytes.
const statusEmpty = 416

// Size implements entry.Blob.
func (r *remote) Size() int64 { return r.size }

// Get implements entry.Blob. A range that does not come whole, or that check refuses, is read again.
func (r *remote) Get(ctx context.Context, off int64, n int, buf []byte, check func([]byte) error) error {
	return r.again(ctx, func(ctx context.Context, signed string) error {
		data, total, err := r.store.storage.get(ctx, signed, off, n, buf)
		if err != nil {
			return err
		}
		if total != r.size || len(data) != n {
			return &fault{class: retry.Transient, text: fmt.Sprintf("the entry has %d bytes now, it had %d", total, r.size)}
		}
		if err := check(data); err != nil {
			// Spoiled on the way, or where it lies: a few tries tell.
			return &fault{class: retry.Uncertain, text: err.Error(), cause: err}
		}
		return nil
	})
}

// again does op on the schedule, each time with a URL that is good as far as anyone knows. A blob that is gone is
// store.ErrNotFound.
func (r *remote) again(ctx context.Context, op func(ctx context.Context, signed string) error) error {
	_, err := retry.Do(ctx, r.store.storage.policy, func(ctx context.Context, _ int) error {
		signed := r.url()
		err := op(ctx, signed)
		if !errors.Is(err, errSigned) {
			return err
		}
		if signed, err = r.renew(ctx, signed); err != nil {
			return err
		}
		return op(ctx, signed)
	})
	if errors.Is(err, errGone) {
		return fmt.Errorf("%w: it was evicted: %w", store.ErrNotFound, err)
	}
	return err
}

func (r *remote) url() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.signed
}

// renew fetches the URL anew, unless somebody has since it was refused.
func (r *remote) renew(ctx context.Context, refused string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.signed != refused {
		return r.signed, nil
	}
	matched, signed, err := r.store.service.lookup(ctx, r.version, r.key)
	if err == nil && matched != r.key {
		err = store.ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("fetching the URL of %s anew: %w", r.key, err)
	}
	r.signed = signed
	return signed, nil
}
