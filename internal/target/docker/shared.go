package docker

import (
	"context"
	"slices"
	"sync"

	"github.com/moby/moby/client"
	"github.com/opencontainers/go-digest"

	"github.com/pullonce/pullonce/internal/image"
)

// maxImages bounds how many images are looked at for common layers: each is a question to the daemon.
const maxImages = 64

// shared is how many of the image's first layers are the first layers of one image that the daemon holds, and so need
// not be sent: a classic store keeps layers by the chain from the base up, and takes an archive without them. The proof
// after the load tells whether it was true; what the daemon can't tell here is nothing to give up for.
func (l load) shared(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, l.limits.Call) // for all of it: it only saves time
	defer cancel()
	if len(l.img.Layers()) == 0 {
		return 0
	}
	list, err := l.api.ImageList(ctx, client.ImageListOptions{})
	if err != nil {
		return 0
	}
	longest := 0
	for _, item := range list.Items[:min(maxImages, len(list.Items))] {
		held, err := l.api.ImageInspect(ctx, item.ID)
		if err == nil {
			longest = max(longest, common(l.img.Layers(), held.RootFS.Layers))
		}
	}
	return longest
}

// common is the length of the leading run of diff ids that layers and held have in common.
func common(layers []image.Layer, held []string) int {
	for i, l := range layers {
		if i >= len(held) || held[i] != l.DiffID.String() {
			return i
		}
	}
	return len(layers)
}

// pulled are the digests under which a daemon has pulled layers from this process. A classic store knows them again: where it
// has what they unpack to, it does not ask for them in another pull (moby, daemon/internal/distribution/metadata). The zero
// value works.
type pulled struct {
	mu      sync.Mutex
	digests map[digest.Digest]bool
}

func (p *pulled) add(served []digest.Digest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.digests == nil {
		p.digests = map[digest.Digest]bool{}
	}
	for _, d := range served {
		p.digests[d] = true
	}
}

// has says whether all were pulled.
func (p *pulled) has(served []digest.Digest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !slices.ContainsFunc(served, func(d digest.Digest) bool { return !p.digests[d] })
}

// served are the digests by which a pull asks for the image's layers.
func (l load) served() []digest.Digest {
	digests := make([]digest.Digest, len(l.img.Layers()))
	for i, layer := range l.img.Layers() {
		digests[i] = layer.Descriptor.Digest
		if l.plain() {
			digests[i] = layer.DiffID
		}
	}
	return digests
}
