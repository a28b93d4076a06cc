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
	err := encodeFrom(ctx, w, img, n)
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
