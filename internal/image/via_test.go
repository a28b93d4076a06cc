package image_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
)

func TestViaReadsAnotherSourceAndStillVerifies(t *testing.T) {
	t.Parallel()
	parts := imagetest.Parts(t, imagetest.Options{})
	img, err := image.New(parts)
	require.NoError(t, err)
	require.Equal(t, encoded(t, img), encoded(t, img.Via(func(s image.Source) image.Source { return s })))

	wrong := imagetest.Blobs{}
	for d, data := range parts.Source.(imagetest.Blobs) {
		wrong[d] = append(data[:len(data)-1:len(data)-1], data[len(data)-1]^1)
	}
	err = image.Verify(t.Context(), img.Via(func(image.Source) image.Source { return wrong }))
	require.ErrorIs(t, err, image.ErrVerify)
	require.NoError(t, image.Verify(t.Context(), img))
}

func TestByDigestNamesTheRootAlone(t *testing.T) {
	t.Parallel()
	for _, o := range []imagetest.Options{{}, {Index: true, Digest: true}, {Index: true, ByDigest: true}} {
		img := imagetest.New(t, o)
		named := encoded(t, img)
		by, err := img.ByDigest()
		require.NoError(t, err)
		members := documents(t, encoded(t, by))
		require.Contains(t, members["index.json"], `"io.containerd.image.name":"docker.io/library/test@`+img.Root().Digest.String()+`"`)
		require.NotContains(t, members["index.json"], "test:1")
		require.Contains(t, members["manifest.json"], `"RepoTags":null`)
		require.Equal(t, img.Reference(), by.Reference())
		require.Equal(t, named, encoded(t, img), "the image itself stays as it was")
	}
}
