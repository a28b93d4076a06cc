package recompress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/tempfile"
)

// identity is what a recompressed layer is known by: the blob that it was, and its content.
type identity struct{ blob, content digest.Digest }

func identify(l image.Layer) identity { return identity{l.Descriptor.Digest, l.DiffID} }

// layer is one recompressed layer.
type layer struct {
	// turn is held by whoever recompresses the layer; the others wait for it, and have the next turn if it came to nothing.
	turn       chan struct{}
	file       *tempfile.File // nil until the layer is there
	descriptor ocispec.Descriptor
	held       int // how many claims may still want it
}

// errClosed says that an image was asked for whose claim is over.
var errClosed = errors.New("the claim is closed")

// hold notes a claim.
func (s *Spool) hold(id identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.layers[id]
	if !ok {
		l = &layer{turn: make(chan struct{}, 1)}
		s.layers[id] = l
	}
	l.held++
}

// release notes that a claim is over.
func (s *Spool) release(claimed map[identity]int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range claimed {
		if l, ok := s.layers[id]; ok {
			l.held--
		}
	}
	return s.free(func(l *layer) bool { return l.held == 0 })
}

// free lets go of the layers that are of no use any more. The Spool is locked.
func (s *Spool) free(useless func(*layer) bool) error {
	var errs []error
	for id, l := range s.layers {
		if !useless(l) {
			continue
		}
		delete(s.layers, id)
		if l.file != nil {
			errs = append(errs, l.file.Discard())
		}
	}
	return errors.Join(errs...)
}

// pack recompresses a layer that a claim holds, once for all who ask.
func (s *Spool) pack(ctx context.Context, original image.Layer, read func(use func(io.Reader) error) error) error {
	s.mu.Lock()
	l, ok := s.layers[identify(original)]
	s.mu.Unlock()
	if !ok {
		return errClosed
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if l.file != nil {
		return nil
	}
	f, d, err := s.make(ctx, original, read)
	if err != nil {
		return fmt.Errorf("layer %s: %w", original.Descriptor.Digest, err)
	}
	return s.keep(identify(original), l, f, d)
}

// keep puts a layer's file where images find it, unless nobody wants it any more.
func (s *Spool) keep(id identity, l *layer, f *tempfile.File, d ocispec.Descriptor) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.layers[id] != l {
		return errors.Join(errClosed, f.Discard())
	}
	l.file, l.descriptor = f, d
	return nil
}

// make recompresses a layer into a file of its own, which is gone again if that comes to nothing.
func (s *Spool) make(ctx context.Context, original image.Layer, read func(use func(io.Reader) error) error) (*tempfile.File, ocispec.Descriptor, error) {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return nil, ocispec.Descriptor{}, context.Cause(ctx)
	}
	p := s.packers.Get().(*packer)
	defer s.packers.Put(p)
	f, err := tempfile.Create(s.options.Dir, "pullonce-layer-*")
	if err != nil {
		return nil, ocispec.Descriptor{}, fmt.Errorf("spooling a layer: %w", err)
	}
	var d ocispec.Descriptor
	err = read(func(blob io.Reader) (err error) {
		if err := rewind(f); err != nil {
			return err
		}
		d, err = p.pack(ctx, f, blob, original.DiffID, s.options.MaxContent)
		return err
	})
	if err != nil {
		_ = f.Discard() // the first error tells more
		return nil, ocispec.Descriptor{}, err
	}
	return f, d, nil
}

// rewind makes a file empty again.
func rewind(f *tempfile.File) error {
	_, err := f.Seek(0, io.SeekStart)
	if err == nil {
		err = f.Truncate(0)
	}
	if err != nil {
		return fmt.Errorf("spooling a layer: %w", err)
	}
	return nil
}

// source gives the recompressed layers, and the image's own blobs where those stayed as they are.
type source struct {
	packed map[digest.Digest]*layer
	rest   image.Source
}

var (
	_ image.Source = source{}
	_ image.Keeper = source{}
)

// Blob implements image.Source.
func (s source) Blob(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	l, ok := s.packed[d.Digest]
	if !ok {
		return s.rest.Blob(ctx, d)
	}
	return io.NopCloser(io.NewSectionReader(l.file, 0, l.descriptor.Size)), nil
}

// Keep implements image.Keeper: what was recompressed is at hand.
func (s source) Keep(ctx context.Context, blobs []ocispec.Descriptor) error {
	rest := slices.DeleteFunc(slices.Clone(blobs), func(d ocispec.Descriptor) bool { return s.packed[d.Digest] != nil })
	if len(rest) == 0 {
		return nil
	}
	keeper, ok := s.rest.(image.Keeper)
	if !ok {
		return errors.ErrUnsupported
	}
	return keeper.Keep(ctx, rest)
}
