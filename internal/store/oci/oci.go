// Package oci keeps images in a repository of a registry. It owns what an entry looks like there, its publication and its
// removal. It does not know targets or where images come from.
//
// An entry is one image manifest under the key as tag. It lists the image's own config and layers, so that whoever
// pulls the tag gets the image, and so that no registry drops a blob of it. The image's root and manifest can't be that
// manifest: a registry takes no index whose other platforms are missing, and where it takes one, it drops the untagged
// child when it cleans up. So their bytes, and the config's, are annotations, packed; with what else a reader must know
// they make one request the whole of a look-up, and no digest changes. The image's manifest is pushed under its own
// digest as well, for those who pull by it; nothing here depends on it.
//
// A generation is a number in the entry, not another tag. A tag moves at once and as a whole, so the newest generation
// is always where the first was, however many there have been.
//
// Package registry is the client: credentials, pace, schedule and classes are those of pulls, which is why a store knows
// it here and nowhere else.
package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/store"
)

// Options say which repository, and how to be with its registry.
type Options struct {
	// Repository is "registry/repository", as in "ghcr.io/me/cache". It belongs to the store alone.
	Repository string
	// Registry says how the registry is asked, as for pulls. With a SpoolDir a layer that several images share is fetched
	// once; mirrors are not asked.
	Registry registry.Options
	// Concurrency is how many layers of an image are sent at a time; 3 by default.
	Concurrency int
	// Now is the clock that entries are dated by; time.Now by default.
	Now func() time.Time
}

// Store is a store.Store in a registry. Safe for concurrent use.
type Store struct {
	client      *registry.Client
	home        reference.Reference // the repository; its tag means nothing
	repository  name.Repository
	options     []remote.Option
	pusher      *remote.Pusher
	concurrency int
	now         func() time.Time
}

var _ store.Store = (*Store)(nil)

// New is the store. Nothing is sent yet. The caller closes it.
func New(o Options) (*Store, error) {
	home, err := parseRepository(o.Repository)
	if err != nil {
		return nil, err
	}
	o.Registry.Mirrors = nil
	s := &Store{client: registry.New(o.Registry), home: home, concurrency: cmp.Or(o.Concurrency, 3), now: o.Now}
	if s.now == nil {
		s.now = time.Now
	}
	if s.repository, s.options, err = s.client.Remote(home); err != nil {
		return nil, err
	}
	if s.pusher, err = remote.NewPusher(s.pushOptions()...); err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", home.Repository(), err)
	}
	return s, nil
}

// pushOptions are for the pushing client. Layers that licenses once kept out of registries are sent like any other: a
// lane needs them.
func (s *Store) pushOptions() []remote.Option {
	return append([]remote.Option{remote.WithNondistributable}, s.options...)
}

// parseRepository reads "registry/repository". The registry is never guessed: the store of a run should not end up on
// Docker Hub for want of a dot.
func parseRepository(s string) (reference.Reference, error) {
	domain, _, ok := strings.Cut(s, "/")
	if !ok || !strings.ContainsAny(domain, ".:") && domain != "localhost" {
		return reference.Reference{}, fmt.Errorf("repository %q names no registry: write it as in ghcr.io/owner/name", s)
	}
	home, err := reference.Parse(s)
	if err != nil {
		return reference.Reference{}, err
	}
	if home.Repository() != s {
		return reference.Reference{}, fmt.Errorf("repository %q has a tag or a digest", s)
	}
	return home, nil
}

// Close removes the spooled layers and lets connections go. No image of the store is of use after it.
func (s *Store) Close() error { return s.client.Close() }

// String is the store as people write it.
func (s *Store) String() string { return "oci://" + s.home.Repository() }

// Stat implements store.Store, by one request. What is under the key and can't be used is none of the store's entries,
// and Save puts one in its place: it is store.ErrNotFound as well as store.ErrCorrupt.
func (s *Store) Stat(ctx context.Context, key string) (store.Entry, error) {
	found, err := s.find(ctx, key)
	if errors.Is(err, store.ErrCorrupt) {
		err = fmt.Errorf("%w: %w", store.ErrNotFound, err)
	}
	if err != nil {
		return store.Entry{}, fmt.Errorf("looking %s up in %s: %w", key, s, err)
	}
	return found.entry(), nil
}

// Open implements store.Store, by one request.
func (s *Store) Open(ctx context.Context, key string) (image.Image, error) {
	img, err := s.open(ctx, key)
	if err != nil {
		return image.Image{}, fmt.Errorf("opening %s in %s: %w", key, s, err)
	}
	return img, nil
}

// Save implements store.Store. Only layers that the repository does not have are read and sent, or mounted where the
// registry has them in the repository that the image comes from; the tag is put last. Where the registry lets this run
// read and not write it is store.ErrReadOnly.
func (s *Store) Save(ctx context.Context, key string, img image.Image) error {
	if err := s.save(ctx, key, img); err != nil {
		return fmt.Errorf("saving %s in %s: %w", key, s, err)
	}
	return nil
}

// tagged is the reference of key's entry.
func (s *Store) tagged(key string) (reference.Reference, error) {
	ref, err := reference.Parse(s.home.Repository() + ":" + key)
	if err != nil {
		return reference.Reference{}, fmt.Errorf("invalid key: %w", err)
	}
	return ref, nil
}
