package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/tempfile"
)

// spool keeps verified blobs on disk, each fetched once for whoever asks. Its files have no names where the system lets an
// open one go without: then nothing is left of them, however the process ends. Safe for concurrent use.
type spool struct {
	dir string

	mu    sync.Mutex
	blobs map[digest.Digest]*spooled
}

// spooled is one blob of a spool.
type spooled struct {
	// turn is held by whoever fetches the blob; the others wait for it, and have the next turn if it came to nothing.
	turn chan struct{}
	file *tempfile.File // nil until the blob is there
	held int            // how many pulls may still want it
}

func newSpool(dir string) *spool { return &spool{dir: dir, blobs: map[digest.Digest]*spooled{}} }

// blob finds or makes the place of a blob.
func (s *spool) blob(d digest.Digest) *spooled {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.blobs[d]
	if !ok {
		b = &spooled{turn: make(chan struct{}, 1)}
		s.blobs[d] = b
	}
	return b
}

// open gives the blob from the disk, until it is dropped. Where it is not there yet fetch gets it, once for all who ask at
// the same time.
func (s *spool) open(ctx context.Context, d ocispec.Descriptor, fetch func(*os.File) error) (io.ReadCloser, error) {
	b := s.blob(d.Digest)
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if b.file == nil {
		file, err := s.keep(fetch)
		if err != nil {
			return nil, err
		}
		b.file = file
	}
	return io.NopCloser(io.NewSectionReader(b.file, 0, d.Size)), nil
}

// keep fetches a blob into a file of its own, which is gone again if that comes to nothing.
func (s *spool) keep(fetch func(*os.File) error) (*tempfile.File, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the spool: %w", err)
	}
	file, err := tempfile.Create(s.dir, "pullonce-layer-*")
	if err != nil {
		return nil, fmt.Errorf("spooling a layer: %w", err)
	}
	if err := fetch(file.File); err != nil {
		_ = file.Discard() // the first error tells more
		return nil, err
	}
	return file, nil
}

// hold notes that a pull may want the blobs; release, that it no longer does. A blob that no pull wants is removed.
func (s *spool) hold(blobs []digest.Digest) {
	for _, d := range blobs {
		b := s.blob(d)
		s.mu.Lock()
		b.held++
		s.mu.Unlock()
	}
}

// alone says that the blob is not here, and that no more than one pull may want it: to keep it would be for nothing.
func (s *spool) alone(d digest.Digest) bool {
	b := s.blob(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
		return b.held <= 1 && b.file == nil
	default:
		return false // it is on its way
	}
}

func (s *spool) release(blobs []digest.Digest) error {
	var errs []error
	for _, d := range blobs {
		errs = append(errs, s.drop(s.blob(d)))
	}
	return errors.Join(errs...)
}

// drop counts a holder less, and removes the blob after the last one.
func (s *spool) drop(b *spooled) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.held--
	if b.held > 0 {
		return nil
	}
	return b.remove()
}

// remove removes the blob. One that is being fetched all the same is left for close, or for the end of the process.
func (b *spooled) remove() error {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	default:
		return nil
	}
	if b.file == nil {
		return nil
	}
	file := b.file
	b.file = nil
	return file.Discard()
}

// close removes all blobs.
func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, b := range s.blobs {
		errs = append(errs, b.remove())
	}
	return errors.Join(errs...)
}
