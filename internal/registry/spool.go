package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/opencontainers/go-digest"
)

// spool keeps verified blobs on disk, each fetched once for whoever asks. Safe for concurrent use.
type spool struct {
	parent string

	mu    sync.Mutex
	dir   string // below parent; "" until the first blob
	blobs map[digest.Digest]*spooled
}

// spooled is one blob of a spool.
type spooled struct {
	// turn is held by whoever fetches the blob; the others wait for it, and have the next turn if it came to nothing.
	turn chan struct{}
	path string // "" until the blob is there
	held int    // how many pulls may still want it
}

func newSpool(parent string) *spool {
	return &spool{parent: parent, blobs: map[digest.Digest]*spooled{}}
}

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

// open gives the blob from the disk. Where it is not there yet fetch gets it, once for all who ask at the same time.
func (s *spool) open(ctx context.Context, d digest.Digest, fetch func(*os.File) error) (io.ReadCloser, error) {
	b := s.blob(d)
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if b.path == "" {
		path, err := s.keep(d, fetch)
		if err != nil {
			return nil, err
		}
		b.path = path
	}
	return os.Open(b.path)
}

// keep fetches a blob into a file of its own, which is gone again if that comes to nothing.
func (s *spool) keep(d digest.Digest, fetch func(*os.File) error) (string, error) {
	dir, err := s.makeDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, d.Encoded())
	file, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("spooling a layer: %w", err)
	}
	if err := errors.Join(fetch(file), file.Close()); err != nil {
		_ = os.Remove(path) // the first error tells more
		return "", err
	}
	return path, nil
}

func (s *spool) makeDir() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir != "" {
		return s.dir, nil
	}
	if err := os.MkdirAll(s.parent, 0o700); err != nil {
		return "", fmt.Errorf("making the spool: %w", err)
	}
	dir, err := os.MkdirTemp(s.parent, "pullonce-spool-")
	if err != nil {
		return "", fmt.Errorf("making the spool: %w", err)
	}
	s.dir = dir
	return dir, nil
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

func (s *spool) release(blobs []digest.Digest) error {
	var errs []error
	for _, d := range blobs {
		errs = append(errs, s.drop(d))
	}
	return errors.Join(errs...)
}

// drop counts a holder less, and removes the blob after the last one. One that is being fetched all the same is left for close.
func (s *spool) drop(d digest.Digest) error {
	b := s.blob(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	b.held--
	if b.held > 0 {
		return nil
	}
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	default:
		return nil
	}
	if b.path == "" {
		return nil
	}
	path := b.path
	b.path = ""
	return os.Remove(path)
}

// close removes all blobs.
func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		return nil
	}
	dir := s.dir
	s.dir, s.blobs = "", map[digest.Digest]*spooled{}
	return os.RemoveAll(dir)
}
