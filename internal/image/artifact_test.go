package image_test

import (
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
)

func TestArtifactIsWhatHasNoImageConfig(t *testing.T) {
	t.Parallel()
	chart := imagetest.New(t, imagetest.Options{Artifact: true, Platform: platform.Platform{OS: "linux", Architecture: "s390x"}})
	require.True(t, chart.Artifact())
	require.EqualError(t, chart.Loadable(), `not a container image (config media type "application/vnd.cncf.helm.config.v1+json")`)
	require.Equal(t, "linux/s390x", chart.Platform().String(), "it has the platform that it was asked for")
	require.Empty(t, chart.Layers()[0].DiffID)

	for mediaType, artifact := range map[string]bool{
		"":                                      false,
		ocispec.MediaTypeImageConfig:            false,
		ocispec.MediaTypeEmptyJSON:              true,
		"application/vnd.docker.plugin.v1+json": true,
		"application/vnd.docker.container.image.v1+json": false,
	} {
		img, err := image.New(remade(t, imagetest.Parts(t, imagetest.Options{}), func(m *ocispec.Manifest, _ *ocispec.Image) {
			m.Config.MediaType = mediaType
		}))
		require.NoError(t, err, mediaType)
		require.Equal(t, artifact, img.Artifact(), mediaType)
		require.Equal(t, artifact, img.Loadable() != nil, mediaType)
		require.Equal(t, artifact, img.Layers()[0].DiffID == "", mediaType)
	}
}

func TestArtifactIsVerifiedLikeAnImage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil func(t *testing.T, p *image.Parts)
		want  string
	}{
		"another root": {func(_ *testing.T, p *image.Parts) {
			p.Reference = reference.MustParse("test@" + digest.FromString("another").String())
		}, "the reference says"},
		"another config": {func(_ *testing.T, p *image.Parts) { p.Config = []byte("{}") }, "config is sha256:"},
		"a layer of another algorithm": {func(t *testing.T, p *image.Parts) {
			*p = remade(t, *p, func(m *ocispec.Manifest, _ *ocispec.Image) {
				m.Layers[0].Digest = digest.SHA512.FromString("a")
			})
		}, "only sha256 is supported"},
		"behind an index": {func(t *testing.T, p *image.Parts) {
			d := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(p.Manifest), Size: int64(len(p.Manifest))}
			index := ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{d}}
			index.SchemaVersion = 2
			p.Root = encode(t, index)
		}, "is listed by an index: not a container image"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := imagetest.Parts(t, imagetest.Options{Artifact: true})
			test.spoil(t, &p)
			_, err := image.New(p)
			require.ErrorIs(t, err, image.ErrVerify)
			require.ErrorContains(t, err, test.want)
		})
	}
	p := imagetest.Parts(t, imagetest.Options{Artifact: true})
	img, err := image.New(p)
	require.NoError(t, err)
	require.NoError(t, image.Verify(t.Context(), img))
	p.Source.(imagetest.Blobs)[img.Layers()[0].Descriptor.Digest][5] ^= 1
	require.ErrorIs(t, image.Verify(t.Context(), img), image.ErrVerify)
}
