package lane

import (
	"context"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/target"
)

// muchShared is the part of an image, one in so many, that must be on its way with another for it to wait for that one.
const muchShared = 4

// unpacksTwice says whether a target would unpack layers of two images twice that it gets at the same time.
func (r *run) unpacksTwice(ctx context.Context) bool {
	return slices.ContainsFunc(r.Targets, func(t Target) bool {
		teller, ok := t.Target.(target.Teller)
		return ok && teller.Twice(ctx)
	})
}

// bases are the layers that images begin with. Of those that two have in common, the second goes on from what is unpacked with
// the first. The zero value knows of none, and asks nobody to wait.
type bases struct {
	matter bool
	there  map[digest.Digest]bool // by chain id: a layer with all below it
	coming []*ticket              // images on their way
}

// wait says whether an image had better wait: a good part of it is on its way with another, and who waits for some of that waits
// for all of it.
func (b *bases) wait(t *ticket) bool {
	for _, other := range b.coming {
		fresh := b.fresh(t, other)
		if fresh > 0 && (t.awaits == other || fresh*muchShared >= t.img.Size()) {
			t.awaits = other
			return true
		}
	}
	t.awaits = nil
	return false
}

// fresh is the size of the layers that both begin with and that are not there yet.
func (b *bases) fresh(t, other *ticket) (size int64) {
	for i, l := range t.img.Layers() {
		if i >= len(other.chains) || other.chains[i] != t.chains[i] {
			break
		}
		if !b.there[t.chains[i]] {
			size += l.Descriptor.Size
		}
	}
	return size
}

// begin notes an image that goes.
func (b *bases) begin(t *ticket) { b.coming = append(b.coming, t) }

// unpacked notes that so many of its first layers are there: of a ticket without chains, nothing.
func (b *bases) unpacked(t *ticket, layers int) {
	if b.there == nil {
		b.there = map[digest.Digest]bool{}
	}
	for _, chain := range t.chains[:min(layers, len(t.chains))] {
		b.there[chain] = true
	}
}

// end notes that an image has gone through. Nobody waits for one of which nothing came.
func (b *bases) end(t *ticket) {
	b.coming = slices.DeleteFunc(b.coming, func(other *ticket) bool { return other == t })
	b.unpacked(t, len(t.chains))
}

// chainsOf are the chain ids of img's layers (OCI image-spec, config.md).
func chainsOf(img image.Image) []digest.Digest {
	ids := make([]digest.Digest, len(img.Layers()))
	for i, l := range img.Layers() {
		ids[i] = l.DiffID
	}
	return identity.ChainIDs(ids)
}
