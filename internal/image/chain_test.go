package image_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
)

func TestNewRefusesABrokenChain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, p *image.Parts)
		want  string
	}{
		{"another root than the pin's", func(t *testing.T, p *image.Parts) {
			p.Reference = reference.MustParse("test@" + digest.FromString("another").String())
		}, "the reference says"},
		{"one byte more in the root", func(t *testing.T, p *image.Parts) {
			p.Reference = reference.MustParse("test@" + digest.FromBytes(p.Root).String())
			p.Root = append(bytes.Clone(p.Root), ' ')
		}, "the reference says"},
		{"a manifest that the root does not list", func(t *testing.T, p *image.Parts) {
			p.Manifest = append(bytes.Clone(p.Manifest), ' ')
		}, "does not list"},
		{"a root that is another manifest", func(t *testing.T, p *image.Parts) {
			p.Root = append(bytes.Clone(p.Manifest), ' ')
		}, "is no index and not the manifest"},
		{"an index as manifest", func(t *testing.T, p *image.Parts) { p.Manifest = p.Root }, "which is no image manifest"},
		{"another config", func(t *testing.T, p *image.Parts) { p.Config = []byte("{}") }, "config is sha256:"},
		{"no root", func(t *testing.T, p *image.Parts) { p.Root = nil }, "no JSON document"},
		{"a page in place of a manifest", func(t *testing.T, p *image.Parts) { p.Manifest = []byte("<html>") }, "no JSON document"},
		{"a root that is too large", func(t *testing.T, p *image.Parts) {
			p.Root = append(bytes.Clone(p.Root), bytes.Repeat([]byte(" "), image.MaxDocument)...)
		}, "at most"},
		{"another architecture", func(t *testing.T, p *image.Parts) {
			p.Platform = platform.Platform{OS: "linux", Architecture: "s390x"}
		}, "is for linux/amd64, linux/s390x was asked for"},
		{"schema 1", func(t *testing.T, p *image.Parts) {
			p.Root = []byte(`{"schemaVersion":1,"name":"library/test","fsLayers":[]}`)
		}, "unsupported manifest: schema version 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := imagetest.Parts(t, imagetest.Options{Index: true})
			test.spoil(t, &p)
			_, err := image.New(p)
			require.ErrorIs(t, err, image.ErrVerify)
			require.ErrorContains(t, err, test.want)
		})
	}
}

// remade is p with its manifest and config changed, and every digest above made right again: what a registry may serve.
func remade(t *testing.T, p image.Parts, change func(*ocispec.Manifest, *ocispec.Image)) image.Parts {
	t.Helper()
	var manifest ocispec.Manifest
	var config ocispec.Image
	require.NoError(t, json.Unmarshal(p.Manifest, &manifest))
	require.NoError(t, json.Unmarshal(p.Config, &config))
	change(&manifest, &config)
	p.Config = encode(t, config)
	manifest.Config.Digest, manifest.Config.Size = digest.FromBytes(p.Config), int64(len(p.Config))
	p.Manifest = encode(t, manifest)
	p.Root = p.Manifest
	return p
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}

func TestNewRefusesAnImageThatMakesNoSense(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*ocispec.Manifest, *ocispec.Image)
		want   string
	}{
		{"a layer without diff id", func(_ *ocispec.Manifest, c *ocispec.Image) { c.RootFS.DiffIDs = c.RootFS.DiffIDs[1:] }, "diff ids"},
		{"too many layers", func(m *ocispec.Manifest, c *ocispec.Image) {
			for len(m.Layers) <= image.MaxLayers {
				m.Layers, c.RootFS.DiffIDs = append(m.Layers, m.Layers[0]), append(c.RootFS.DiffIDs, c.RootFS.DiffIDs[0])
			}
		}, "at most 512"},
		{"a negative size", func(m *ocispec.Manifest, _ *ocispec.Image) { m.Layers[1].Size = -1 }, "layer 1: size -1"},
		{"a size without bounds", func(m *ocispec.Manifest, _ *ocispec.Image) { m.Layers[0].Size = 1 << 62 }, "layer 0: size"},
		{"no digest", func(m *ocispec.Manifest, _ *ocispec.Image) { m.Layers[0].Digest = "" }, "layer 0: digest"},
		{"a path as digest", func(m *ocispec.Manifest, _ *ocispec.Image) { m.Layers[0].Digest = "sha256:../../x" }, "layer 0: digest"},
		{"another algorithm", func(m *ocispec.Manifest, _ *ocispec.Image) {
			m.Layers[0].Digest = digest.SHA512.FromString("x")
		}, "only sha256"},
		{"a diff id that is none", func(_ *ocispec.Manifest, c *ocispec.Image) { c.RootFS.DiffIDs[0] = "x" }, "layer 0: digest"},
		{"one layer in two sizes", func(m *ocispec.Manifest, _ *ocispec.Image) {
			m.Layers[1] = m.Layers[0]
			m.Layers[1].Size++
		}, "layer 1: sha256:"},
		{"another architecture in the config", func(_ *ocispec.Manifest, c *ocispec.Image) { c.Architecture = "arm64" }, "is for linux/arm64"},
		{"another system in the config", func(_ *ocispec.Manifest, c *ocispec.Image) { c.OS = "windows" }, "is for windows/amd64"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := image.New(remade(t, imagetest.Parts(t, imagetest.Options{Layers: 2}), test.change))
			require.ErrorIs(t, err, image.ErrVerify)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestNewNeedsAReferenceAndASource(t *testing.T) {
	t.Parallel()
	for _, p := range []image.Parts{{Source: imagetest.Blobs{}}, {Reference: reference.MustParse("test:1")}} {
		_, err := image.New(p)
		require.ErrorContains(t, err, "a reference and a source")
		require.NotErrorIs(t, err, image.ErrVerify)
	}
}

func TestConfigIsNoLayer(t *testing.T) {
	t.Parallel()
	p := imagetest.Parts(t, imagetest.Options{})
	p = remade(t, p, func(m *ocispec.Manifest, c *ocispec.Image) {
		m.Layers[0].Digest, m.Layers[0].Size = digest.FromBytes(encode(t, c)), int64(len(encode(t, c)))
	})
	_, err := image.New(p)
	require.ErrorIs(t, err, image.ErrVerify)
	require.ErrorContains(t, err, "mentioned before as something else")
}

// The root says what a manifest is for; configs of the wrong architecture and without a variant are in use.
func TestPlatformIsThatOfTheRoot(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ listed, config, want, err string }{
		{"linux/arm64", "linux/amd64", "linux/arm64", ""},
		{"linux/arm64/v8", "linux/arm64", "linux/arm64", ""},
		{"linux/arm/v6", "linux/arm", "linux/arm/v7", ""},
		{"linux/arm/v7", "linux/arm", "linux/arm/v6", "is for linux/arm/v7, linux/arm/v6 was asked for"},
		{"linux/amd64", "linux/arm64", "linux/arm64", "is for linux/amd64"},
		{"", "linux/arm64", "linux/arm64", ""},
		{"", "linux/arm", "linux/arm/v6", ""},
		{"", "linux/amd64", "linux/arm64", "is for linux/amd64"},
	} {
		p := imagetest.Parts(t, imagetest.Options{})
		p = remade(t, p, func(_ *ocispec.Manifest, c *ocispec.Image) { c.Platform = *spec(test.config) })
		p.Root = encode(t, ocispec.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
			Manifests: []ocispec.Descriptor{{Digest: digest.FromBytes(p.Manifest), Size: int64(len(p.Manifest)), Platform: spec(test.listed)}},
		})
		want := spec(test.want)
		p.Platform = platform.Platform{OS: want.OS, Architecture: want.Architecture, Variant: want.Variant}
		img, err := image.New(p)
		if test.err != "" {
			require.ErrorIs(t, err, image.ErrVerify)
			require.ErrorContains(t, err, test.err)
			continue
		}
		require.NoError(t, err, test)
		require.Equal(t, test.want, img.Platform().String())
	}
}

func spec(s string) *ocispec.Platform {
	if s == "" {
		return nil
	}
	parts := append(strings.Split(s, "/"), "")
	return &ocispec.Platform{OS: parts[0], Architecture: parts[1], Variant: parts[2]}
}

func TestMediaType(t *testing.T) {
	t.Parallel()
	const (
		dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
		dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	)
	for _, test := range []struct{ doc, want, err string }{
		{`{"schemaVersion":2,"config":{},"layers":[]}`, ocispec.MediaTypeImageManifest, ""},
		{`{"schemaVersion":2,"manifests":[]}`, ocispec.MediaTypeImageIndex, ""},
		{`{"schemaVersion":2,"mediaType":"` + dockerManifest + `","config":{}}`, dockerManifest, ""},
		{`{"schemaVersion":2,"mediaType":"` + dockerList + `","manifests":[]}`, dockerList, ""},
		{`{"schemaVersion":2,"mediaType":"` + dockerList + `","config":{}}`, "", "does not match"},
		{`{"schemaVersion":2,"mediaType":"` + dockerManifest + `","manifests":[]}`, "", "does not match"},
		{`{"schemaVersion":2,"manifests":[],"config":{}}`, "", "neither"},
		{`{"schemaVersion":2,"manifests":[],"layers":[]}`, "", "neither"},
		{`{"schemaVersion":2}`, "", "neither"},
		{`{}`, "", "schema version 0"},
		{`[]`, "", "no JSON document"},
		{``, "", "no JSON document"},
	} {
		got, err := image.MediaType([]byte(test.doc))
		if test.err != "" {
			require.ErrorContains(t, err, test.err, test.doc)
			continue
		}
		require.NoError(t, err, test.doc)
		require.Equal(t, test.want, got, test.doc)
		require.NotEqual(t, image.IsIndex(got), image.IsManifest(got), test.doc)
	}
}
