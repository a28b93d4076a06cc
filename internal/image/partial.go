package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// EncodeFrom is Encode without the first n layers, for a target that holds them already. A layer that comes again
// further up is written.
func EncodeFrom(ctx context.Context, w io.Writer, img Image, n int) error {
	return EncodeWhen(ctx, w, img, n, func(context.Context) error { return nil })
}

// EncodeWhen is EncodeFrom that ends the archive once ready returns. An error of ready is returned as it is, and w has no
// end then.
func EncodeWhen(ctx context.Context, w io.Writer, img Image, n int, ready func(context.Context) error) error {
	if err := img.encodeLayers(ctx, w, n); err != nil {
		return img.encoding(err)
	}
	if err := ready(ctx); err != nil {
		return err
	}
	_, err := w.Write(append(slices.Clone(img.tail), make([]byte, trailerSize)...))
	return img.encoding(err)
}

// encoding is an error of writing the archive.
func (img Image) encoding(err error) error {
	if err == nil || errors.Is(err, ErrRead) {
		return err // what can't be read says so itself
	}
	return fmt.Errorf("writing the archive of %s: %w", img.ref.Familiar(), err)
}

// from are the layers of an archive without the first n.
func (img Image) from(n int) []stored {
	return slices.DeleteFunc(img.stored(), func(s stored) bool {
		same := func(l Layer) bool { return l.Descriptor.Digest == img.layers[s.layer].Descriptor.Digest }
		return !slices.ContainsFunc(img.layers[min(n, len(img.layers)):], same)
	})
}
