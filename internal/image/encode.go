package image

import (
	"context"
	"io"
)

// copyBuffer is how much of a layer is in memory at a time, in bytes.
const copyBuffer = 128 << 10

// Encode writes img's archive, EncodedSize bytes: the same for the same image. Layers are verified as they are
// written; on an error w has no trailer, so that what it has is no complete tar. Whoever streams the archive on must
// end that stream with the error as well, because some readers take a tar without trailer.
func Encode(ctx context.Context, w io.Writer, img Image) error { return EncodeFrom(ctx, w, img, 0) }

// encodeLayers writes the head and the layers from the first on.
func (img Image) encodeLayers(ctx context.Context, w io.Writer, first int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := w.Write(img.head); err != nil {
		return err
	}
	buf := make([]byte, copyBuffer)
	layers := img.from(first)
	img.announce(layers)
	for _, s := range layers {
		if err := img.encodeLayer(ctx, w, s, buf); err != nil {
			return err
		}
	}
	return nil
}

func (img Image) encodeLayer(ctx context.Context, w io.Writer, s stored, buf []byte) error {
	h, err := header(img.blobName(img.layers[s.layer].Descriptor.Digest), s.size)
	if err != nil {
		return err
	}
	if _, err := w.Write(h); err != nil {
		return err
	}
	if err := img.copyLayer(ctx, w, s.layer, buf); err != nil {
		return err
	}
	_, err = w.Write(make([]byte, padded(s.size)-s.size))
	return err
}
