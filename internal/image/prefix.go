package image

import (
	"encoding/json"
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/reference"
)

// prefixAuthor is in the config of a prefix, so that it is nobody else's.
const prefixAuthor = "pullonce: the first layers of an image that is being loaded"

// Prefix is an image of img's first n layers under a name of the caller's, for targets that unpack it while the rest of
// img is on its way: what it unpacks to is what img's first layers do. Its manifest and its config are pullonce's making,
// the same for the same layers. It is nothing to run. A Source that is told what will be read is told of the rest as well.
func (img Image) Prefix(n int, name reference.Reference) (Image, error) {
	img.ref, img.form, img.layers, img.further = name, form{}, img.layers[:n:n], img.layers[n:]
	config := ocispec.Image{Author: prefixAuthor, Platform: ocispec.Platform{
		OS: img.platform.OS, Architecture: img.platform.Architecture, Variant: img.platform.Variant,
	}}
	config.RootFS.Type = "layers"
	for _, l := range img.layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, l.DiffID)
	}
	data, err := json.Marshal(config)
	if err != nil {
		return Image{}, fmt.Errorf("encoding the config of the first %d layers: %w", n, err)
	}
	img.config = Document{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromBytes(data), Data: data}
	if img.carrier, err = img.listing(atHand); err != nil {
		return Image{}, err
	}
	img.root, img.manifest = img.carrier, img.carrier
	err = img.makeHead(Parts{})
	return img, err
}
