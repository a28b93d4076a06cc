package actions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/store/actions/entry"
)

// uploadPace is what another job's upload is expected to make at least, in bytes a second, while it is waited for.
const uploadPace = 16 << 20

// Save implements store.Store. The key is reserved only once the whole entry lies verified in the spool, because a
// reservation that nothing follows blocks its key for a day. A key that somebody else has reserved is waited for, and
// where nothing comes of it, the next generation is saved. Save returns once the entry can be looked up. Where the run
// may not write it is store.ErrReadOnly, before any layer is read if the token says so.
func (s *Store) Save(ctx context.Context, key string, img image.Image) error {
	if err := s.save(ctx, key, img); err != nil {
		return fmt.Errorf("saving %s in the Actions cache: %w", key, err)
	}
	return nil
}

func (s *Store) save(ctx context.Context, key string, img image.Image) error {
	if reason := s.access.readOnly; reason != "" {
		return fmt.Errorf("%w: %s", store.ErrReadOnly, reason)
	}
	spooled, err := s.spool(ctx, key, img)
	if err != nil {
		return err
	}
	defer spooled.free()
	base, first := store.ParseGeneration(key)
	for n := first; n <= maxGeneration; n++ {
		err := s.publish(ctx, base, n, spooled)
		if !errors.Is(err, errStuck) {
			return err
		}
	}
	return fmt.Errorf("every generation from %s on is reserved and none of them is there", key)
}

// errStuck says that a key is reserved and no entry comes of it.
var errStuck = errors.New("reserved without an entry")

// publish takes one generation of key through the stages: reserve, upload, publish, see it there.
func (s *Store) publish(ctx context.Context, key string, generation int, spooled *spool) error {
	name, version := store.Generation(key, generation), Version(key)
	signed, doubtful, err := s.service.create(ctx, name, version)
	switch {
	case errors.Is(err, errExists) && doubtful:
		return s.joined(ctx, key, generation, 0) // most likely our own: nobody will upload to it
	case errors.Is(err, errExists):
		return s.joined(ctx, key, generation, s.options.VisibilityWait+time.Duration(spooled.size/uploadPace)*time.Second)
	case err != nil:
		return err
	}
	if err := s.storage.upload(ctx, signed, spooled.file, spooled.size); err != nil {
		if errors.Is(err, errSigned) {
			return fmt.Errorf("%w: %w", errStuck, err) // only a reservation has a URL, and this one had its own
		}
		return fmt.Errorf("uploading: %w", err)
	}
	if err := s.service.finalize(ctx, name, version, spooled.size); err != nil {
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

// spool is an entry on disk, on its way out.
type spool struct {
	file *os.File
	size int64
}

// spool writes img's entry to a file that is gone when it is freed, or when the process is.
func (s *Store) spool(ctx context.Context, key string, img image.Image) (*spool, error) {
	f, err := os.CreateTemp(s.options.SpoolDir, "pullonce-*.tzst")
	if err != nil {
		return nil, fmt.Errorf("spooling: %w", err)
	}
	_ = os.Remove(f.Name()) // where a file that is open can't be removed, free does it
	spooled := &spool{file: f}
	if spooled.size, err = entry.Write(ctx, f, key, img, time.Now()); err != nil {
		spooled.free()
		return nil, fmt.Errorf("spooling: %w", err)
	}
	return spooled, nil
}

func (s *spool) free() {
	s.file.Close()
	_ = os.Remove(s.file.Name())
}
