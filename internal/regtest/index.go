package regtest

import (
	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Index is an index of images.
type Index struct {
	// Images are the images listed, in order.
	Images     []*Image
	raw        []byte
	descriptor ocispec.Descriptor
}

// NewIndex lists images. It is a Docker manifest list where the first image has Docker's media types.
func NewIndex(images ...*Image) *Index {
	mediaType := ocispec.MediaTypeImageIndex
	if len(images) > 0 && images[0].descriptor.MediaType == dockerManifest {
		mediaType = dockerManifestList
	}
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: mediaType}
	index.Manifests = make([]ocispec.Descriptor, len(images))
	for i, img := range images {
		index.Manifests[i] = img.descriptor
	}
	raw := mustMarshal(index)
	return &Index{
		Images:     images,
		raw:        raw,
		descriptor: ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(raw), Size: int64(len(raw))},
	}
}

// Descriptor implements Artifact.
func (x *Index) Descriptor() ocispec.Descriptor { return x.descriptor }

// Raw implements Artifact.
func (x *Index) Raw() []byte { return x.raw }

func (x *Index) items() []item {
	items := []item{{KindIndex, x.descriptor.MediaType, x.descriptor.Digest, bodyOf(x.raw)}}
	for _, img := range x.Images {
		items = append(items, img.items()...)
	}
	return items
}
