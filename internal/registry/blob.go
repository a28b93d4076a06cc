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

	"github.com/pullonce/pullonce/internal/image"
)

var _ image.Source = (*fetch)(nil)

// Blob implements image.Source: from the spool, where there is one, else straight from the registry.
func (f *fetch) Blob(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	if f.client.spool == nil {
		s, err := f.stream(ctx, d)
		if err != nil {
			return nil, f.wrap(" layer "+d.Digest.Encoded()[:12], err)
		}
		return s, nil
	}
	rc, err := f.client.spool.open(ctx, d.Digest, func(file *os.File) error { return f.download(ctx, d, file) })
	if err != nil {
		return nil, f.wrap(" layer "+d.Digest.Encoded()[:12], err)
	}
	return rc, nil
}

// download writes a blob to a file, and begins again when what came is another one.
func (f *fetch) download(ctx context.Context, d ocispec.Descriptor, file *os.File) error {
	s, err := f.stream(ctx, d)
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		_, err := io.Copy(file, s)
		if _, mismatch := errors.AsType[*mismatchError](err); !mismatch || isPermanent(err) {
			return err
		}
		s.restart(err)
		if err := rewind(file); err != nil {
			return err
		}
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

// Close says that no layer of the image will be read any more, so that its share of the spool can go.
func (p *Pull) Close() error {
	if p.fetch == nil || p.fetch.client.spool == nil {
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
