package actions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pullonce/pullonce/internal/retry"
	"github.com/pullonce/pullonce/internal/store"
)

// maxGeneration is the newest generation that is looked for and saved.
const maxGeneration = 3

// find looks key up. One that is known to be saved is looked for again before it counts as a miss.
func (s *Store) find(ctx context.Context, key string) (*remote, error) {
	if s.access.noRead != "" {
		return nil, errors.New(s.access.noRead)
	}
	if wait := time.Until(s.start); wait > 0 {
		if err := retry.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
	found, err := s.newest(ctx, key)
	if errors.Is(err, store.ErrNotFound) && s.options.Saved(key) {
		found, err = s.await(ctx, key, 0, s.options.VisibilityWait)
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("%w: no entry for key %s, version %s, in scope %s", store.ErrNotFound, key, Version(key), s.access.scopeNames())
	}
	return found, err
}

// newest looks for the newest generation of key, with one call: the service takes the first of several keys that is
// there. But it also takes entries whose keys only begin like one of ours; then each generation is asked for by itself,
// since an exact match goes first there.
func (s *Store) newest(ctx context.Context, key string) (*remote, error) {
	keys := generations(key)
	found, err := s.ask(ctx, key, keys...)
	if found != nil || err != nil {
		return found, err
	}
	for _, one := range keys {
		found, err := s.ask(ctx, key, one)
		if found != nil || (err != nil && !errors.Is(err, store.ErrNotFound)) {
			return found, err
		}
	}
	return nil, store.ErrNotFound
}

// newestFrom is newest for a generation not older than the one given.
func (s *Store) newestFrom(ctx context.Context, key string, generation int) (*remote, error) {
	found, err := s.newest(ctx, key)
	if err == nil && found.generation < generation {
		return nil, store.ErrNotFound
	}
	return found, err
}

// ask makes one call for some generations of key. Where the service takes an entry of another key there is neither
// entry nor error.
func (s *Store) ask(ctx context.Context, key string, keys ...string) (*remote, error) {
	version := Version(key)
	matched, signed, err := s.service.lookup(ctx, version, keys...)
	if err != nil {
		return nil, err
	}
	for n := range maxGeneration + 1 {
		if matched == store.Generation(key, n) {
			return &remote{store: s, key: matched, version: version, generation: n, signed: signed}, nil
		}
	}
	return nil, nil
}

// generations are the keys of all generations, the newest first.
func generations(key string) []string {
	keys := make([]string, 0, maxGeneration+1)
	for n := maxGeneration; n >= 0; n-- {
		keys = append(keys, store.Generation(key, n))
	}
	return keys
}

// await looks for key, in a generation not older than the one given, until it shows up or the time is over.
func (s *Store) await(ctx context.Context, key string, generation int, patience time.Duration) (found *remote, err error) {
	policy := retry.Policy{Timeout: patience, First: time.Second, Max: 5 * time.Second, Jitter: s.options.Policy.Jitter}
	_, err = retry.Do(ctx, policy, func(ctx context.Context, _ int) error {
		found, err = s.newestFrom(ctx, key, generation)
		if errors.Is(err, store.ErrNotFound) {
			return &fault{class: retry.Transient, text: "not visible yet", cause: err}
		}
		return err
	})
	return found, err
}
