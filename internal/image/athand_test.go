package image_test

import (
	"context"
	"errors"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
)

// keeper is a source that keeps blobs, or does not.
type keeper struct {
	imagetest.Blobs
	err  error
	kept *[]ocispec.Descriptor
}

// Keep implements image.Keeper.
func (k keeper) Keep(_ context.Context, blobs []ocispec.Descriptor) error {
	*k.kept = append(*k.kept, blobs...)
	return k.err
}

func TestLayersAreBroughtToHandWhereTheirSourceCan(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"it can":   {nil, true},
		"it can't": {errors.ErrUnsupported, false},
		"it fails": {broken, false},
	} {
		parts := imagetest.Parts(t, imagetest.Options{Layers: 3, Recompressed: true})
		var kept []ocispec.Descriptor
		parts.Source = keeper{parts.Source.(imagetest.Blobs), tc.err, &kept}
		img, err := image.New(parts)
		require.NoError(t, err)
		ok, err := img.AtHand(t.Context())
		require.Equal(t, tc.want, ok, name)
		require.Equal(t, errors.Is(tc.err, broken), err != nil, name)
		if err != nil {
			require.ErrorIs(t, err, broken)
			require.ErrorIs(t, err, image.ErrRead)
		}
		require.Len(t, kept, 3)
		for i, l := range img.Layers() {
			require.Equal(t, l.Descriptor, kept[i])
		}
	}
}

func TestASourceThatKeepsNothingSaysSo(t *testing.T) {
	t.Parallel()
	ok, err := imagetest.New(t, imagetest.Options{}).AtHand(t.Context())
	require.NoError(t, err)
	require.False(t, ok)
}
