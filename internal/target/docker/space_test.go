package docker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image/imagetest"
)

func TestRoom(t *testing.T) {
	t.Parallel()
	require.NoError(t, enough("/data", 100, 100))
	require.EqualError(t, enough("/data", 3_000_000_000, 1_234_567),
		"there would be no space left on device: at least 3000.0 MB are needed, 1.2 MB are free at /data")

	img := imagetest.New(t, imagetest.Options{Layers: 3})
	last := img.Layers()[2].Descriptor.Size
	require.Equal(t, last, sizeFrom(img, 2))
	require.Zero(t, sizeFrom(img, 3))

	d, err := New(Options{})
	require.NoError(t, err)
	for root, known := range map[string]bool{t.TempDir(): true, "/nowhere": false, "": false} {
		free, ok := freeSpace(root)
		require.Equal(t, known, ok, root)
		require.Equal(t, known, free > 0, root)
		require.NoError(t, load{Docker: d, img: img, daemon: daemon{root: root}}.room(0))
	}
}
