package actions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/tempfile"
)

// uploadPace is what another job's upload is expected to make at least, in bytes a second, while it is waited for.
const uploadPace = 16 << 20

// Save implements store.Store. The key is reserved only once the whole image is at hand and verified, because a reservation
// that nothing follows blocks its key for a day. The entry is made as it is sent, from the layers where they lie. A key that
// somebody else has reserved is waited for, and where nothing comes of it, the next generation is saved. Save returns once
// the entry can be looked up. Where the run may not write it is store.ErrReadOnly, before any layer is read if the token
// says so.
func (s *Store) Save(ctx context.Context, key string, img image.Image) error {
	if err := s.save(ctx, key, img); err != nil {
		return fmt.Errorf("saving %s in the Actions cache: %w", key, err)
	}
	return nil
}

// ProvesSaves implements store.Proving: publish and joined end with a look-up.
func (s *Store) ProvesSaves() bool { return true }

func (s *Store) save(ctx context.Context, key string, img image.Image) error {
	if reason := s.access.readOnly; reason != "" {
		return fmt.Errorf("%w: %s", store.ErrReadOnly, reason)
	}
	img, free, err := s.atHand(ctx, img)
	if err != nil {
		return err
	}
	defer free()
	d, err := s.writer.Draft(key, img, time.Now())
	if err != nil {
		return err
	}
	base, first := store.ParseGeneration(key)
	for n := first; n <= maxGeneration; n++ {
		err := s.publish(ctx, base, n, image.EncodedSize(img), d)
		if !errors.Is(err, errStuck) {
			return err
		}
	}
	return fmt.Errorf("every generation from %s on is reserved and none of them is there", key)
}

// errStuck says that a key is reserved and no entry comes of it.
var errStuck = errors.New("reserved without an entry")

// publish takes one generation of key through the stages: reserve, upload, publish, see it there. While it is reserved the
// first block is made. size is about that of the entry, in bytes.
func (s *Store) publish(ctx context.Context, key string, generation int, size int64, d draft) error {
	name, version := store.Generation(key, generation), Version(key)
	up := s.storage.prepare(ctx, d)
	signed, doubtful, err := s.service.create(ctx, name, version)
	if err != nil {
		up.abandon(err)
	}
	switch {
	case errors.Is(err, errExists) && doubtful:
		return s.joined(ctx, key, generation, 0) // most likely our own: nobody will upload to it
	case errors.Is(err, errExists):
		return s.joined(ctx, key, generation, s.options.VisibilityWait+time.Duration(size/uploadPace)*time.Second)
	case err != nil:
		return err
	}
	if size, err = up.finish(ctx, signed); err != nil {
		if errors.Is(err, errSigned) {
			return fmt.Errorf("%w: %w", errStuck, err) // only a reservation has a URL, and this one had its own
		}
		return fmt.Errorf("uploading: %w", err)
	}
	if err := s.service.finalize(ctx, name, version, size); err != nil {
		if _, absent := s.newestFrom(ctx, key, generation); absent != nil {
			return err
		}
		return nil // it was heard all the same
	}
	if _, err := s.await(ctx, key, generation, s.options.SettleWait); err != nil {
		return fmt.Errorf("it was saved and can't be looked up: %w", err)
	}
	return nil
}

// joined waits for the entry of somebody else who has reserved the key: then there is nothing left to do.
func (s *Store) joined(ctx context.Context, key string, generation int, patience time.Duration) error {
	_, err := s.newestFrom(ctx, key, generation)
	if errors.Is(err, store.ErrNotFound) && patience > 0 {
		_, err = s.await(ctx, key, generation, patience)
	}
	if errors.Is(err, store.ErrNotFound) {
		return errStuck
	}
	return err
}

// atHand is img with all of its layers on this machine, each verified. Where its own source can't have that they are kept
// here, until free is called.
func (s *Store) atHand(ctx context.Context, img image.Image) (kept image.Image, free func(), err error) {
	ok, err := img.AtHand(ctx)
	if ok || err != nil {
		return img, func() {}, err
	}
	f, err := tempfile.Create(s.options.SpoolDir, "pullonce-*.tar")
	if err != nil {
		return image.Image{}, nil, fmt.Errorf("spooling: %w", err)
	}
	free = func() { _ = f.Discard() } // nothing depends on it any more
	if err = image.Encode(ctx, f, img); err == nil {
		kept, err = image.Decode(ctx, f, image.EncodedSize(img))
	}
	if err != nil {
		free()
		return image.Image{}, nil, fmt.Errorf("spooling: %w", err)
	}
	return kept, free, nil
}
