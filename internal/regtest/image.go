package regtest

import (
	"encoding/json"

	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Docker's media types, from its image manifest v2 schema 2 specification.
const (
	dockerManifestList = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerManifest     = "application/vnd.docker.distribution.manifest.v2+json"
	dockerConfig       = "application/vnd.docker.container.image.v1+json"
	dockerLayer        = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

// Artifact is what a registry can be given: an Image or an Index.
type Artifact interface {
	// Descriptor is the descriptor of the manifest or index.
	Descriptor() ocispec.Descriptor
	// Raw is the manifest or index itself. The caller must not change it.
	Raw() []byte
	items() []item
}

var (
	_ Artifact = (*Image)(nil)
	_ Artifact = (*Index)(nil)
)

// Config says what an image is besides its layers. The zero value is an OCI image for linux/amd64.
type Config struct {
	// Platform of the image; linux/amd64 where OS and Architecture are empty.
	Platform ocispec.Platform
	// Docker uses Docker's media types in place of the OCI's.
	Docker bool
	// Run is what a container does: entry point, environment, user.
	Run ocispec.ImageConfig
}

// Image is an image for one platform.
type Image struct {
	// Layers are the layers, the base first.
	Layers     []Layer
	raw        []byte
	config     []byte
	descriptor ocispec.Descriptor
	configType string
}

// NewImage makes an image of layers. The same arguments give the same digests.
func NewImage(c Config, layers ...Layer) *Image {
	if c.Platform.OS == "" && c.Platform.Architecture == "" {
		c.Platform.OS, c.Platform.Architecture = "linux", "amd64"
	}
	config := ocispec.Image{Platform: c.Platform, Config: c.Run, RootFS: ocispec.RootFS{Type: "layers"}}
	for _, l := range layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, l.DiffID)
	}
	img := &Image{Layers: layers, config: mustMarshal(config)}
	types := [3]string{ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageConfig, ocispec.MediaTypeImageLayerGzip}
	if c.Docker {
		types = [3]string{dockerManifest, dockerConfig, dockerLayer}
	}
	img.seal(types)
	img.descriptor.Platform = &c.Platform
	return img
}

// RandomImage is an OCI image for linux/amd64 with layers of size bytes each that do not compress. The same seed gives
// the same image, and another seed shares no layer with it.
func RandomImage(seed uint64, layers int, size int64) *Image {
	made := make([]Layer, layers)
	for i := range made {
		made[i] = RandomLayer(seed<<16|uint64(i), size)
	}
	return NewImage(Config{}, made...)
}

// Attestation is what BuildKit puts beside an image in an index: a manifest for the platform unknown/unknown whose
// annotations name the image that it speaks of.
func Attestation(of *Image) *Image {
	statement := []byte(`{"_type":"https://in-toto.io/Statement/v0.1","subject":[]}`)
	layer := newLayer(digest.FromBytes(statement), bodyOf(statement))
	unknown := ocispec.Platform{OS: "unknown", Architecture: "unknown"}
	config := ocispec.Image{Platform: unknown, RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{layer.DiffID}}}
	img := &Image{Layers: []Layer{layer}, config: mustMarshal(config)}
	img.seal([3]string{ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageConfig, "application/vnd.in-toto+json"})
	img.descriptor.Platform = &unknown
	img.descriptor.Annotations = map[string]string{
		"vnd.docker.reference.type":   "attestation-manifest",
		"vnd.docker.reference.digest": of.descriptor.Digest.String(),
	}
	return img
}

// Chart is what Helm pushes: a manifest whose config is no image's, with one layer of a chart's files.
func Chart(files map[string]string) *Image {
	img := &Image{Layers: []Layer{FileLayer(files)}, config: []byte(`{"name":"chart","version":"1.0.0","apiVersion":"v2"}`)}
	img.seal([3]string{
		ocispec.MediaTypeImageManifest, "application/vnd.cncf.helm.config.v1+json", "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
	})
	return img
}

// seal makes the manifest; types are those of manifest, config and layers.
func (img *Image) seal(types [3]string) {
	img.configType = types[1]
	manifest := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: types[0],
		Config:    ocispec.Descriptor{MediaType: types[1], Digest: digest.FromBytes(img.config), Size: int64(len(img.config))},
		Layers:    make([]ocispec.Descriptor, len(img.Layers)),
	}
	for i, l := range img.Layers {
		manifest.Layers[i] = ocispec.Descriptor{MediaType: types[2], Digest: l.Digest, Size: l.Size}
	}
	img.raw = mustMarshal(manifest)
	img.descriptor = ocispec.Descriptor{MediaType: types[0], Digest: digest.FromBytes(img.raw), Size: int64(len(img.raw))}
}

// Descriptor implements Artifact; platform and annotations are those that an index lists.
func (img *Image) Descriptor() ocispec.Descriptor { return img.descriptor }

// Raw implements Artifact.
func (img *Image) Raw() []byte { return img.raw }

// Config is the image's config. The caller must not change it.
func (img *Image) Config() []byte { return img.config }

// ConfigDigest is the digest of the config, which classic Docker calls the image's id.
func (img *Image) ConfigDigest() digest.Digest { return digest.FromBytes(img.config) }

func (img *Image) items() []item {
	items := []item{
		{KindManifest, img.descriptor.MediaType, img.descriptor.Digest, bodyOf(img.raw)},
		{KindConfig, "application/octet-stream", img.ConfigDigest(), bodyOf(img.config)},
	}
	for _, l := range img.Layers {
		items = append(items, item{KindBlob, "application/octet-stream", l.Digest, l.body})
	}
	return items
}

func mustMarshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs always marshal
	}
	return data
}
