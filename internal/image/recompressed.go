package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Recompressed says whether layers of img are not the blobs that its manifest lists, but the same contents compressed
// anew with zstd. Root, manifest and config are the registry's bytes all the same. What trusts an image by its digests
// trusts it: its layers are held to the diff ids of the config. A daemon that has it can run it, and has nothing to push
// or save, because the blobs that the manifest lists are not there.
func (img Image) Recompressed() bool {
	return slices.ContainsFunc(img.layers, func(l Layer) bool { return l.recompressed })
}

// Carrier is the manifest that lists the layers as they are at hand: the image's own, or that of a recompressed image,
// which pullonce makes of the config and the layers, and nothing else goes into it.
func (img Image) Carrier() Document { return img.carrier }

// replaceLayers takes the blobs that stand in for the manifest's layers, one each. One that the manifest lists is what it
// says there; any other is the same content in zstd.
func (img *Image) replaceLayers(blobs []ocispec.Descriptor) error {
	if blobs == nil {
		return nil
	}
	if img.Artifact() {
		return errors.New("an artifact has no contents that could be compressed anew")
	}
	if len(blobs) != len(img.layers) {
		return fmt.Errorf("%d layers stand in for %d", len(blobs), len(img.layers))
	}
	for i, d := range blobs {
		original := img.layers[i].Descriptor
		switch {
		case d.Digest == original.Digest && d.Size == original.Size:
			continue
		case d.MediaType != "" && d.MediaType != ocispec.MediaTypeImageLayerZstd:
			return fmt.Errorf("layer %d: media type %q stands in for another, only zstd may", i, d.MediaType)
		}
		img.layers[i].Descriptor = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerZstd, Digest: d.Digest, Size: d.Size}
		img.layers[i].recompressed = true
	}
	return img.checkLayers()
}

// makeCarrier is a stage of New: it makes the manifest of the layers at hand.
func (img *Image) makeCarrier(Parts) error {
	img.carrier = img.manifest
	if !img.Recompressed() {
		return nil
	}
	var err error
	img.carrier, err = img.listing(atHand)
	return err
}

// atHand is a layer as it is at hand.
func atHand(l Layer) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: l.Descriptor.MediaType, Digest: l.Descriptor.Digest, Size: l.Descriptor.Size}
}

// listing is a manifest of pullonce's making: it lists the config and each layer as list has it, and nothing else goes into
// it.
func (img *Image) listing(list func(Layer) ocispec.Descriptor) (Document, error) {
	manifest := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: img.config.Digest, Size: int64(len(img.config.Data))},
		Layers:    make([]ocispec.Descriptor, len(img.layers)),
	}
	for i, l := range img.layers {
		manifest.Layers[i] = list(l)
	}
	data, err := json.Marshal(manifest)
	if err != nil {
		return Document{}, fmt.Errorf("encoding the manifest of the layers: %w", err)
	}
	return newDocument("manifest of the layers", data)
}
