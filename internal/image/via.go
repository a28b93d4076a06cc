package image

import (
	"fmt"

	"github.com/pullonce/pullonce/internal/reference"
)

// Via is img with its blobs read through wrap's source, which is given the present one. Blobs are verified as before.
func (img Image) Via(wrap func(Source) Source) Image {
	img.source = wrap(img.source)
	return img
}

// ByDigest is img with an archive that names it by the digest of its root alone, for containerd: a name that no other
// image can have, under which it can be proven to be whole before it takes over a tag.
func (img Image) ByDigest() (Image, error) {
	name := img.ref.WithDigest(img.root.Digest)
	ref, err := reference.Parse(name)
	if err != nil {
		return Image{}, fmt.Errorf("naming %s by digest: %w", img.ref.Familiar(), err)
	}
	bare := img
	bare.ref = ref
	if err := img.writeHead(bare.index(), bare.dockerImage()); err != nil {
		return Image{}, err
	}
	return img, nil
}
