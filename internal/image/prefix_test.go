package image_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/reference"
)

// A prefix is an image of its own, which unpacks to the same chain, of the very blobs.
func TestPrefix(t *testing.T) {
	t.Parallel()
	name := reference.MustParse("pullonce.invalid/part:1")
	for what, o := range map[string]imagetest.Options{
		"exact":        {Index: true, Layers: 3, Digest: true},
		"recompressed": {Index: true, Layers: 3, Recompressed: true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			img := imagetest.New(t, o)
			prefix, err := img.Prefix(2, name)
			require.NoError(t, err)
			require.Equal(t, img.Layers()[:2], prefix.Layers())
			require.Equal(t, prefix.Root(), prefix.Manifest())
			require.Equal(t, prefix.Root(), prefix.Carrier())
			require.NotEqual(t, img.Config().Digest, prefix.Config().Digest)

			var manifest ocispec.Manifest
			require.NoError(t, json.Unmarshal(prefix.Manifest().Data, &manifest))
			require.Equal(t, prefix.Config().Descriptor(), manifest.Config)
			var config ocispec.Image
			require.NoError(t, json.Unmarshal(prefix.Config().Data, &config))
			require.Equal(t, "amd64", config.Architecture)
			for i, l := range prefix.Layers() {
				require.Equal(t, l.Descriptor, manifest.Layers[i])
				require.Equal(t, l.DiffID, config.RootFS.DiffIDs[i])
			}

			named, err := prefix.ByDigest()
			require.NoError(t, err)
			members := documents(t, encoded(t, named))
			require.Contains(t, members["index.json"], name.WithDigest(prefix.Root().Digest))
			require.NotContains(t, members["index.json"], img.Root().Digest)
			require.Len(t, members, 4+2+2, "what lists, manifest and config, and two layers")

			again, err := imagetest.New(t, o).Prefix(2, name)
			require.NoError(t, err)
			require.Equal(t, prefix.Root(), again.Root(), "the same layers are the same prefix")
		})
	}
}

// Blobs of a prefix are held to what the image's are.
func TestPrefixIsVerified(t *testing.T) {
	t.Parallel()
	parts := imagetest.Parts(t, imagetest.Options{Layers: 2, Recompressed: true})
	blobs := parts.Source.(imagetest.Blobs)
	other := imagetest.Zstd([]byte("another content"))
	parts.Layers[0].Digest, parts.Layers[0].Size = digest.FromBytes(other), int64(len(other))
	blobs[digest.FromBytes(other)] = other
	img, err := image.New(parts)
	require.NoError(t, err)
	prefix, err := img.Prefix(1, reference.MustParse("pullonce.invalid/part:1"))
	require.NoError(t, err)
	var b bytes.Buffer
	require.ErrorIs(t, image.Encode(t.Context(), &b, prefix), image.ErrVerify)
}

// announced is a source that notes what it is told will be read.
type announced struct {
	image.Source
	blobs []ocispec.Descriptor
}

// Announce implements image.Announcer.
func (a *announced) Announce(blobs []ocispec.Descriptor) { a.blobs = blobs }

// A source is told of the layers that will be read after those of a prefix.
func TestPrefixAnnouncesTheRest(t *testing.T) {
	t.Parallel()
	var told announced
	img := imagetest.New(t, imagetest.Options{Layers: 4}).Via(func(s image.Source) image.Source {
		told.Source = s
		return &told
	})
	prefix, err := img.Prefix(3, reference.MustParse("pullonce.invalid/part:1"))
	require.NoError(t, err)
	require.NoError(t, image.EncodeFrom(t.Context(), new(bytes.Buffer), prefix, 1))
	var want []ocispec.Descriptor
	for _, l := range img.Layers()[1:] {
		want = append(want, l.Descriptor)
	}
	require.Equal(t, want, told.blobs)
}

func TestIndexLast(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Index: true, Layers: 2})
	last, err := img.IndexLast()
	require.NoError(t, err)
	archive := encoded(t, last)
	require.Equal(t, documents(t, encoded(t, img)), documents(t, archive), "the same members")
	require.Len(t, archive, int(image.EncodedSize(last)))
	require.Equal(t, image.EncodedSize(img), image.EncodedSize(last))

	var b bytes.Buffer
	refused := errors.New("not ready")
	ready := func(context.Context) error {
		members := documents(t, b.Bytes())
		require.NotContains(t, members, "index.json")
		require.NotContains(t, members, "manifest.json")
		require.Len(t, members, len(documents(t, archive))-2)
		return refused
	}
	require.ErrorIs(t, image.EncodeWhen(t.Context(), &b, last, 0, ready), refused)
	require.Equal(t, archive[:b.Len()], b.Bytes())
	require.NotContains(t, documents(t, b.Bytes()), "index.json", "what was not ready has no end")
}
