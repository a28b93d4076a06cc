package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
)

// copyBuffer is how much of a layer is written at a time, in bytes.
const copyBuffer = 128 << 10

// parallelLayers is how many layers of an image are fetched at a time, as Docker does by default.
const parallelLayers = 3

var (
	_ image.Source  = (*fetch)(nil)
	_ image.Keeper  = (*fetch)(nil)
	_ image.Relayer = (*fetch)(nil)
)

// Blob implements image.Source: from the spool, where there is one, else straight from the registry.
func (f *fetch) Blob(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	if f.client.spool == nil {
		s, err := f.stream(ctx, d)
		if err != nil {
			return nil, f.wrap(err)
		}
		return s, nil
	}
	rc, err := f.client.spool.open(ctx, d, func(file *os.File) error { return f.download(ctx, d, file) })
	if err != nil {
		return nil, f.wrap(err)
	}
	return rc, nil
}

// download writes a blob to a file, and begins again when what came is another one.
func (f *fetch) download(ctx context.Context, d ocispec.Descriptor, file *os.File) error {
	buf := make([]byte, copyBuffer)
	return f.straight(ctx, d, func(blob io.Reader) error {
		if err := rewind(file); err != nil {
			return err
		}
		_, err := io.CopyBuffer(struct{ io.Writer }{file}, blob, buf)
		return err
	})
}

// Relay implements image.Relayer: straight from the registry, unless there is a spool and the blob is there or another
// pull may want it too.
func (f *fetch) Relay(ctx context.Context, d ocispec.Descriptor, use func(blob io.Reader) error) error {
	if s := f.client.spool; s == nil || s.alone(d.Digest) {
		return f.straight(ctx, d, use)
	}
	rc, err := f.Blob(ctx, d)
	if err != nil {
		return err
	}
	defer rc.Close()
	return use(rc)
}

// straight hands a blob to use as it comes, again from its first byte on each time that it was another one.
func (f *fetch) straight(ctx context.Context, d ocispec.Descriptor, use func(blob io.Reader) error) error {
	s, err := f.stream(ctx, d)
	if err != nil {
		return f.wrap(err)
	}
	defer s.Close()
	for {
		err := use(s)
		if _, mismatch := errors.AsType[*mismatchError](err); !mismatch || isPermanent(err) {
			return err
		}
		s.restart(err)
	}
}

func rewind(file *os.File) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("beginning a layer again: %w", err)
	}
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("beginning a layer again: %w", err)
	}
	return nil
}

// Keep implements image.Keeper: it fetches the blobs into the spool, a few at a time. Without a spool nothing is kept.
func (f *fetch) Keep(ctx context.Context, blobs []ocispec.Descriptor) error {
	if f.client.spool == nil {
		return errors.ErrUnsupported
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelLayers)
	for _, d := range blobs {
		g.Go(func() error {
			rc, err := f.Blob(ctx, d)
			if err != nil {
				return err
			}
			return rc.Close()
		})
	}
	return g.Wait()
}

// Close says that no layer of the image will be read any more, so that its share of the spool can go.
func (p *Pull) Close() error {
	if p.fetch == nil || p.fetch.client.spool == nil || p.closed.Swap(true) {
		return nil
	}
	return p.fetch.client.spool.release(layersOf(p.Image))
}

// layersOf are the digests of the image's layers, each once.
func layersOf(img image.Image) []digest.Digest {
	var layers []digest.Digest
	for _, l := range img.Layers() {
		if !slices.Contains(layers, l.Descriptor.Digest) {
			layers = append(layers, l.Descriptor.Digest)
		}
	}
	return layers
}
