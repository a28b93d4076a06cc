package image_test

import (
	"archive/tar"
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image/imagetest"
)

func TestUnnamedNamesNothing(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Index: true, Layers: 2, Digest: true})
	named := encoded(t, img)
	unnamed, err := img.Unnamed()
	require.NoError(t, err)

	members := documents(t, encoded(t, unnamed))
	require.Contains(t, members["manifest.json"], `"RepoTags":null`)
	require.Contains(t, members["index.json"], img.Root().Digest.String())
	require.NotContains(t, members["index.json"], "annotations")
	require.Equal(t, img.Reference(), unnamed.Reference())
	require.Equal(t, named, encoded(t, img), "the named image stays as it was")
}

// documents are the members of an archive that are no blobs, by name.
func documents(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	members := map[string]string{}
	for tr := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return members
		}
		require.NoError(t, err)
		data, err := io.ReadAll(tr)
		require.NoError(t, err)
		members[h.Name] = string(data)
	}
}
