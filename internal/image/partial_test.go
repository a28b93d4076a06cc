package image_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
)

func TestLayersLeftOut(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Layers: 3, Repeat: true})
	for n, want := range map[int][]int{0: {0, 1, 2}, 1: {0, 1, 2}, 2: {0, 2}, 3: {0}, 4: nil, 5: nil} {
		var b bytes.Buffer
		require.NoError(t, image.EncodeFrom(t.Context(), &b, img, n))
		members := documents(t, b.Bytes())
		var layers []int
		for i, l := range img.Layers()[:3] {
			if _, ok := members["blobs/sha256/"+l.Descriptor.Digest.Encoded()]; ok {
				layers = append(layers, i)
			}
		}
		require.Equal(t, want, layers, "without the first %d", n)
		require.Contains(t, members["manifest.json"], img.Layers()[0].Descriptor.Digest.Encoded())
	}
}
