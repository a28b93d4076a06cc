package image

import ocispec "github.com/opencontainers/image-spec/specs-go/v1"

// Announcer is what a Source also is where it gains by knowing what will be read.
type Announcer interface {
	// Announce says which blobs are about to be read, one after the other in this order. It takes the place of what was said
	// before, and binds nobody. Safe for concurrent use.
	Announce(blobs []ocispec.Descriptor)
}

// Announce says that the given layers are about to be read, one after the other in this order, so that the next one may
// begin to come while one is read. Encode does this by itself.
func (img Image) Announce(layers ...int) {
	blobs := make([]ocispec.Descriptor, len(layers))
	for i, layer := range layers {
		blobs[i] = img.layers[layer].Descriptor
	}
	img.announceBlobs(blobs)
}

func (img Image) announceBlobs(blobs []ocispec.Descriptor) {
	if announcer, ok := img.source.(Announcer); ok {
		announcer.Announce(blobs)
	}
}

// announce is Announce for what an archive holds, and for what follows in the next where it is one of a prefix.
func (img Image) announce(layers []stored) {
	var blobs []ocispec.Descriptor
	for _, s := range layers {
		blobs = append(blobs, img.layers[s.layer].Descriptor)
	}
	for _, l := range img.further {
		blobs = append(blobs, l.Descriptor)
	}
	img.announceBlobs(blobs)
}

// Extent is a run of n bytes from off on.
type Extent struct{ Off, N int64 }

// Foresighted is a Ranger that gains by knowing which ranges will be asked for.
type Foresighted interface {
	// Announce says which extents are about to be read, one after the other in this order, each by a Range for its beginning.
	// It takes the place of what was said before. Safe for concurrent use.
	Announce(extents []Extent)
}

// Announce implements Announcer.
func (a *archiveSource) Announce(blobs []ocispec.Descriptor) {
	foresighted, ok := a.r.(Foresighted)
	if !ok {
		return
	}
	var extents []Extent
	for _, d := range blobs {
		if offset, ok := a.offsets[d.Digest]; ok {
			extents = append(extents, Extent{offset, blockSize + padded(d.Size)})
		}
	}
	foresighted.Announce(extents)
}
