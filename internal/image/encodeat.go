package image

import (
	"context"
	"fmt"
	"io"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
)

// layersAtOnce is how many layers EncodeAt writes at a time: as many as Docker fetches.
const layersAtOnce = 3

// Relayer is what a Source also is where it can hand a blob on as it comes, and keep nothing of it.
type Relayer interface {
	// Relay calls use with the blob that d describes, to be read to its end. Where what came turns out to be another, use has
	// an error in place of the end; once it has returned that it is called again, with the blob from its first byte on, as
	// often as that may help. Any other error of use's is Relay's.
	Relay(ctx context.Context, d ocispec.Descriptor, use func(blob io.Reader) error) error
}

// EncodeAt is Encode for a w that takes bytes in any order, as a file does. Layers are written several at a time, straight
// from where they come, and once more where they were wrong. On an error w holds no archive.
func EncodeAt(ctx context.Context, w io.WriterAt, img Image) error {
	return img.encoding(img.encodeAt(ctx, w))
}

func (img Image) encodeAt(ctx context.Context, w io.WriterAt) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	group, writing := errgroup.WithContext(ctx)
	group.SetLimit(layersAtOnce)
	for _, s := range img.stored() {
		group.Go(func() error { return img.encodeLayerAt(writing, w, s) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	end := append(slices.Clone(img.tail), make([]byte, trailerSize)...)
	if _, err := w.WriteAt(end, EncodedSize(img)-int64(len(end))); err != nil {
		return err
	}
	_, err := w.WriteAt(img.head, 0)
	return err
}

// encodeLayerAt writes one layer's member.
func (img Image) encodeLayerAt(ctx context.Context, w io.WriterAt, s stored) error {
	h, err := header(img.blobName(img.layers[s.layer].Descriptor.Digest), s.size)
	if err != nil {
		return err
	}
	if _, err := w.WriteAt(h, s.offset); err != nil {
		return err
	}
	buf := make([]byte, copyBuffer)
	err = img.relay(ctx, s.layer, func(layer io.Reader) error {
		_, err := io.CopyBuffer(struct{ io.Writer }{io.NewOffsetWriter(w, s.offset+blockSize)}, layer, buf)
		return err
	})
	if err != nil {
		return fmt.Errorf("copying layer %s: %w", short(img.layers[s.layer].Descriptor.Digest), err)
	}
	_, err = w.WriteAt(make([]byte, padded(s.size)-s.size), s.offset+blockSize+s.size)
	return err
}

// relay hands layer i to use, verified, as Layer does. Where the source can begin it again, use may be called again.
func (img Image) relay(ctx context.Context, i int, use func(layer io.Reader) error) error {
	relayer, ok := img.source.(Relayer)
	if !ok {
		layer, err := img.Layer(ctx, i)
		if err != nil {
			return err
		}
		defer layer.Close()
		return use(layer)
	}
	var used error
	err := relayer.Relay(ctx, img.layers[i].Descriptor, func(blob io.Reader) error {
		layer := img.verified(ctx, io.NopCloser(blob), i)
		defer layer.Close()
		used = use(layer)
		return used
	})
	if err != nil && used == nil {
		return fmt.Errorf("%w: opening layer %s: %w", ErrRead, short(img.layers[i].Descriptor.Digest), err)
	}
	return err
}
