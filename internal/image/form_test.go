package image_test

import (
	"archive/tar"
	"bytes"
	"io"
	"strings"
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

func TestBelowKeepsTheBlobsApart(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Index: true, Layers: 2})
	unnamed, err := img.Unnamed()
	require.NoError(t, err)
	below, err := unnamed.Below("load-1")
	require.NoError(t, err)

	members := documents(t, encoded(t, below))
	for name := range members {
		if strings.Contains(name, "blobs/") {
			require.True(t, strings.HasPrefix(name, "load-1/blobs/sha256/"), name)
		}
	}
	require.Contains(t, members["manifest.json"], `"load-1/blobs/sha256/`)
	require.Contains(t, members["manifest.json"], `"RepoTags":null`, "it stays unnamed")
	require.Equal(t, documents(t, encoded(t, img))["oci-layout"], members["oci-layout"])
	require.Len(t, members, len(documents(t, encoded(t, img))))
}
