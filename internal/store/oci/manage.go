package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/store"
)

var _ store.Managed = (*Store)(nil)

// parallelLooks is how many entries are looked at at a time.
const parallelLooks = 4

// Inspect implements store.Managed.
func (s *Store) Inspect(ctx context.Context, key string) (store.Inspection, error) {
	found, err := s.find(ctx, key)
	inspection := store.Inspection{Entry: found.entry(), Path: s.home.Repository() + ":" + key}
	inspection.Entry.Key = key
	if err == nil {
		if inspection.Image, err = s.image(ctx, found); err == nil {
			err = image.Verify(ctx, inspection.Image)
		}
	}
	if errors.Is(err, image.ErrVerify) && !errors.Is(err, store.ErrCorrupt) {
		err = fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return store.Inspection{}, fmt.Errorf("inspecting %s in %s: %w", key, s, err)
	}
	inspection.Problem = err
	return inspection, nil
}

// List implements store.Managed. Tags that are no entries are left out; of an entry that can't be read only the key is
// known.
func (s *Store) List(ctx context.Context) ([]store.Entry, error) {
	content, err := s.look(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", s, err)
	}
	var entries []store.Entry
	for _, e := range content.entries {
		entries = append(entries, e.entry())
	}
	for _, key := range content.damaged {
		entries = append(entries, store.Entry{Key: key})
	}
	slices.SortFunc(entries, func(a, b store.Entry) int { return cmp.Compare(a.Key, b.Key) })
	return entries, nil
}

// content is what a repository holds.
type content struct {
	entries []envelope // sorted by key
	damaged []string   // keys of entries that can't be read
	foreign []string   // tags that are no entries
}

// look lists the tags and looks at each.
func (s *Store) look(ctx context.Context) (content, error) {
	var tags []string
	err := s.client.Do(ctx, s.home, func(ctx context.Context) (err error) {
		tags, err = remote.List(s.repository, append(slices.Clone(s.options), remote.WithContext(ctx))...)
		return err
	})
	if status(err) == http.StatusNotFound { // as before the first push
		return content{}, fmt.Errorf("%w: %w", store.ErrNoPlace, err)
	}
	if err != nil {
		return content{}, err
	}
	found, errs := make([]envelope, len(tags)), make([]error, len(tags))
	var group errgroup.Group
	group.SetLimit(parallelLooks)
	for i, tag := range tags {
		group.Go(func() error {
			found[i], errs[i] = s.find(ctx, tag)
			if errors.Is(errs[i], store.ErrCorrupt) || errors.Is(errs[i], store.ErrNotFound) {
				return nil
			}
			return errs[i]
		})
	}
	if err := group.Wait(); err != nil {
		return content{}, err
	}
	var c content
	for i, tag := range tags {
		switch {
		case errs[i] == nil:
			c.entries = append(c.entries, found[i])
		case errors.Is(errs[i], errForeign):
			c.foreign = append(c.foreign, tag)
		case errors.Is(errs[i], store.ErrCorrupt):
			c.damaged = append(c.damaged, tag)
		}
	}
	slices.SortFunc(c.entries, func(a, b envelope) int { return cmp.Compare(a.Key, b.Key) })
	return c, nil
}

// Prune implements store.Managed. Generations that were replaced have no tag and are left to the registry, as are the
// blobs that nothing names any more: it removes them in its own time. An image that was opened before stays readable
// until then.
func (s *Store) Prune(ctx context.Context, o store.PruneOptions) ([]store.Pruned, error) {
	pruned, err := s.prune(ctx, o)
	if err != nil {
		return pruned, fmt.Errorf("pruning %s: %w", s, err)
	}
	return pruned, nil
}

func (s *Store) prune(ctx context.Context, o store.PruneOptions) ([]store.Pruned, error) {
	content, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	var doomed []envelope
	var pruned []store.Pruned
	for _, e := range content.entries {
		if reason := o.Reason(e.entry(), false); reason != "" {
			doomed = append(doomed, e)
			pruned = append(pruned, store.Pruned{
				Key: e.Key, Generation: e.Generation, Path: s.home.Repository() + ":" + e.Key, Size: e.entry().Size, Reason: reason,
			})
		}
	}
	if o.DryRun || len(doomed) == 0 {
		return pruned, nil
	}
	return s.remove(ctx, doomed, pruned)
}

// remove deletes the entries' manifests, and then the images' own that no entry is left for.
func (s *Store) remove(ctx context.Context, doomed []envelope, pruned []store.Pruned) (done []store.Pruned, err error) {
	var gone []envelope
	for i, e := range doomed {
		if failed := s.delete(ctx, e.digest()); failed != nil {
			err = errors.Join(err, fmt.Errorf("deleting %s: %w", e.Key, failed))
			if ctx.Err() != nil || status(failed) == http.StatusMethodNotAllowed {
				break // the next would fare no better
			}
			continue
		}
		gone, done = append(gone, e), append(done, pruned[i])
	}
	return done, errors.Join(err, s.removeManifests(ctx, gone))
}

// removeManifests deletes the images' own manifests, which would keep their layers. What an entry that is there needs
// stays, and where the repository has tags that can't be read, or are somebody else's, all of them do: those may need the
// same.
func (s *Store) removeManifests(ctx context.Context, gone []envelope) error {
	if len(gone) == 0 {
		return nil
	}
	left, err := s.look(ctx)
	if errors.Is(err, store.ErrNoPlace) { // a registry may drop a repository with its last tag
		return nil
	}
	if err != nil || len(left.foreign)+len(left.damaged) > 0 {
		return err
	}
	handled := map[digest.Digest]bool{}
	for _, e := range left.entries {
		handled[e.imageDigest()] = true
	}
	for _, e := range gone {
		d := e.imageDigest()
		if d == "" || handled[d] {
			continue
		}
		handled[d] = true
		if failed := s.delete(ctx, d); failed != nil {
			err = errors.Join(err, fmt.Errorf("deleting the manifest of %s: %w", e.Key, failed))
		}
	}
	return err
}

// delete deletes a manifest by its digest. One that is not there is deleted.
func (s *Store) delete(ctx context.Context, d digest.Digest) error {
	err := s.client.Do(ctx, s.home, func(ctx context.Context) error {
		return s.pusher.Delete(ctx, s.repository.Digest(d.String()))
	})
	switch status(err) {
	case http.StatusNotFound:
		return nil
	case http.StatusMethodNotAllowed:
		return fmt.Errorf("the registry deletes nothing by this way: %w", err)
	}
	return err
}
