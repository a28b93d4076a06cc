package loopback

import (
	"encoding/json"
	"fmt"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/image"
)

// describe finds the manifest to serve, and by which digests the layers are asked for.
func (r *Registry) describe() error {
	r.manifest = r.img.Carrier()
	if r.opts.Plain {
		var err error
		if r.manifest, err = plainManifest(r.img); err != nil {
			return err
		}
	}
	for i, l := range r.img.Layers() {
		name := l.Descriptor.Digest
		if r.opts.Plain {
			name = l.DiffID
		}
		if _, again := r.layers[name]; !again {
			r.layers[name] = i
		}
	}
	return nil
}

// plainManifest lists the contents of img's layers in place of their blobs. Nothing is known of their sizes before they are
// unpacked, and a classic store of Docker's does not look at what a manifest says of them.
func plainManifest(img image.Image) (image.Document, error) {
	config := img.Config()
	manifest := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: config.Digest, Size: int64(len(config.Data))},
		Layers:    make([]ocispec.Descriptor, len(img.Layers())),
	}
	for i, l := range img.Layers() {
		manifest.Layers[i] = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: l.DiffID}
	}
	data, err := json.Marshal(manifest)
	if err != nil {
		return image.Document{}, fmt.Errorf("encoding the manifest of the contents: %w", err)
	}
	return image.Document{MediaType: manifest.MediaType, Digest: digest.FromBytes(data), Data: data}, nil
}
