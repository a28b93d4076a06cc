package docker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image/imagetest"
)

func TestRoom(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Layers: 3})
	last := img.Layers()[2].Descriptor.Size
	require.Equal(t, last, sizeFrom(img, 2))
	require.Zero(t, sizeFrom(img, 3))

	d, err := New(Options{})
	require.NoError(t, err)
	for _, root := range []string{t.TempDir(), "/nowhere", ""} {
		require.NoError(t, load{Docker: d, img: img, daemon: daemon{root: root}}.room(0))
	}
}
