package image

import (
	"context"
	"errors"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Keeper is what a Source also is where it can keep blobs on this machine.
type Keeper interface {
	// Keep returns once all of the blobs are at hand: verified, and to be read without waiting, as often as wanted.
	// errors.ErrUnsupported says that this source keeps none.
	Keep(ctx context.Context, blobs []ocispec.Descriptor) error
}

// AtHand brings all of img's layers to hand, where its source can, and says whether it could. Then what is left of them to
// do is to read them: no registry is waited for any more, and each was verified. Where the source can't, nothing is done.
func (img Image) AtHand(ctx context.Context) (bool, error) {
	keeper, ok := img.source.(Keeper)
	if !ok {
		return false, nil
	}
	blobs := make([]ocispec.Descriptor, len(img.layers))
	for i, l := range img.layers {
		blobs[i] = l.Descriptor
	}
	err := keeper.Keep(ctx, blobs)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%w: %w", ErrRead, err)
	}
	return true, nil
}
