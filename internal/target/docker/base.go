package docker

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"

	"github.com/pullonce/pullonce/internal/image"
)

// muchShared is the part of an image, one in so many, that must be on its way with another for it to wait for that one.
const muchShared = 4

// bases are the layers that images on their way into a containerd store begin with. Such a store unpacks those that two
// images have in common once for each, if they come at the same time; behind the first, the second goes on from what is
// there. The zero value works.
type bases struct {
	mu      sync.Mutex
	there   map[digest.Digest]bool // by chain id: a layer with all below it
	coming  []*coming
	changed chan struct{} // closed with the next change
}

// coming is an image on its way.
type coming struct {
	bases  *bases
	layers []image.Layer
	chains []digest.Digest
	waits  bool // it has begun to wait
}

// enter waits for what of img is on its way with another image, if that is a good part, and notes that it is on its own way
// then.
func (b *bases) enter(ctx context.Context, img image.Image) (*coming, error) {
	c := &coming{bases: b, layers: img.Layers(), chains: chainsOf(img)}
	for {
		changed := b.tryEnter(c)
		if changed == nil {
			return c, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryEnter gives what to wait for, or nil.
func (b *bases) tryEnter(c *coming) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, other := range b.coming {
		if c.awaits(other) {
			c.waits = true
			return b.changed
		}
	}
	b.coming = append(b.coming, c)
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return nil
}

// awaits says whether the other brings enough of what is not there yet of this one: a good part of all, and who waits for that
// waits for the rest of it. The bases are locked.
func (c *coming) awaits(other *coming) bool {
	var fresh, all int64
	common := true
	for i, l := range c.layers {
		all += l.Descriptor.Size
		common = common && i < len(other.chains) && other.chains[i] == c.chains[i]
		if common && !c.bases.there[c.chains[i]] {
			fresh += l.Descriptor.Size
		}
	}
	return fresh > 0 && (c.waits || fresh*muchShared >= all)
}

// unpacked notes that the layer with so short an id is unpacked, and so are all below it.
func (c *coming) unpacked(id string) {
	i := slices.IndexFunc(c.layers, func(l image.Layer) bool { return strings.HasPrefix(l.Descriptor.Digest.Encoded(), id) })
	if i < 0 || id == "" {
		return
	}
	c.bases.mu.Lock()
	defer c.bases.mu.Unlock()
	c.bases.note(c.chains[:i+1])
}

// leave notes that the image is on its way no longer: it is there, or was given up.
func (c *coming) leave(there bool) {
	c.bases.mu.Lock()
	defer c.bases.mu.Unlock()
	c.bases.coming = slices.DeleteFunc(c.bases.coming, func(other *coming) bool { return other == c })
	if there {
		c.bases.note(c.chains)
	} else {
		c.bases.note(nil)
	}
}

// note notes layers that are there, and has those who wait look again. The bases are locked.
func (b *bases) note(chains []digest.Digest) {
	if b.there == nil {
		b.there = map[digest.Digest]bool{}
	}
	for _, chain := range chains {
		b.there[chain] = true
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// chainsOf are the chain ids of img's layers (OCI image-spec, config.md).
func chainsOf(img image.Image) []digest.Digest {
	ids := make([]digest.Digest, len(img.Layers()))
	for i, l := range img.Layers() {
		ids[i] = l.DiffID
	}
	return identity.ChainIDs(ids)
}

// enter notes that the image is on its way into the daemon. A classic store has those who want the same layer wait by itself.
func (l load) enter(ctx context.Context) (*coming, error) {
	if !l.daemon.containerd {
		return new(bases).enter(ctx, l.img)
	}
	return l.bases.enter(ctx, l.img)
}
