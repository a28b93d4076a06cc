package containerd

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/oneline"
)

// A containerd unpacks an image once it has the whole archive. So a large one is cut into parts, runs of layers in an
// archive each, and one part is unpacked while the next is sent.
const (
	// partSize is the least that a part has, in bytes: what one more command costs is little beside the time they take.
	partSize = 16 << 20
	// maxParts bounds the parts of one image.
	maxParts = 8
	// ahead is how many parts may be sent before the one in front of them is unpacked. Each is a command that waits, and one
	// more has been started for the next.
	ahead = 2
	// smallWait is how many bytes of others are waited for in any case, because that takes no time.
	smallWait = 4 << 20
)

// part is a run of layers on its way into a containerd, by one import. Its archive ends once what is below it is there.
type part struct {
	from, end int           // which layers of the image
	layers    []image.Layer // those
	below     *part         // what it stands on; nil is what the containerd has
	// shared says that what is below is another image's; unpacked, whether it has to be unpacked, or only sent.
	shared, unpacked bool
	// begun is closed once layers are being sent, sent once all have been, done once they are unpacked, or won't be: then err
	// says why.
	begun, sent, done chan struct{}
	err               error
}

func newPart(layers []image.Layer, from, end int, below *part) *part {
	return &part{
		from: from, end: end, layers: layers[from:end], below: below, unpacked: true,
		begun: make(chan struct{}), sent: make(chan struct{}), done: make(chan struct{}),
	}
}

// errBelow says that another load, whose layers this one has in common, has not brought them.
var errBelow = errors.New("layers that another image brings did not come")

// finish says what came of the part.
func (p *part) finish(err error) {
	p.err = err
	close(p.done)
}

// finish says of all parts that they won't come.
func finish(parts []*part, err error) error {
	for _, p := range parts {
		p.finish(err)
	}
	return err
}

// failed says whether the part is known not to come.
func (p *part) failed() bool {
	select {
	case <-p.done:
		return p.err != nil
	default:
		return false
	}
}

// next waits until the part is the next to be sent: time to start what takes it.
func (p *part) next(ctx context.Context, earlier []*part) error {
	if len(earlier) == 0 {
		return nil
	}
	last := earlier[len(earlier)-1]
	return last.wait(ctx, last.begun)
}

// turn waits until the part may be sent: behind all earlier ones, and not too far ahead of their unpacking.
func (p *part) turn(ctx context.Context, earlier []*part) error {
	n := len(earlier)
	if n > 0 {
		if err := earlier[n-1].wait(ctx, earlier[n-1].sent); err != nil {
			return err
		}
	}
	if n > ahead {
		if err := earlier[n-1-ahead].wait(ctx, earlier[n-1-ahead].done); err != nil {
			return err
		}
	}
	close(p.begun)
	return nil
}

func await(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ready says that the part is sent, and waits for what is below it.
func (p *part) ready(ctx context.Context) error {
	close(p.sent)
	err := p.supported(ctx)
	if err != nil && p.shared && ctx.Err() == nil {
		return fmt.Errorf("%w: %s", errBelow, oneline.Of(err.Error())) // its cause is not this image's
	}
	return err
}

// supported waits for what is below the part.
func (p *part) supported(ctx context.Context) error {
	below := p.below
	if below != nil && !p.unpacked {
		if err := below.wait(ctx, below.sent); err != nil {
			return err
		}
		below = below.below
	}
	if below == nil {
		return nil
	}
	return below.wait(ctx, below.done)
}

// wait waits until the part has come so far, or won't, for the reason that it gives.
func (p *part) wait(ctx context.Context, until <-chan struct{}) error {
	select {
	case <-until:
	case <-p.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if p.failed() {
		return p.err
	}
	return nil
}

// underway are the parts that the loads of this process are bringing into one namespace, and have brought, so that layers
// which images have in common are sent once. The zero value works.
type underway struct {
	mu    sync.Mutex
	parts map[digest.Digest]*part // by what will be there with them: a layer and all below
}

// claim cuts layers without the first ones into parts of at least size bytes. What others are bringing of them is left to
// them. Others can build upon the parts if they may wait for them, until they are released: those of a load that has failed.
func (u *underway) claim(layers []image.Layer, first int, size int64, awaitable bool) (parts []*part, release func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	chains := chains(layers)
	below, common := u.common(layers, chains, first)
	shared, unpacked := below != nil, below == nil || below.worthWaiting(common)
	first = common
	for _, end := range cut(layers, first, size) {
		p := newPart(layers, first, end, below)
		p.shared, p.unpacked = shared, unpacked
		if awaitable {
			u.register(chains[first:end], p)
		}
		parts = append(parts, p)
		below, shared, unpacked, first = p, false, true, end
	}
	return parts, func() { u.release(chains, parts) }
}

// register lets others build upon a part. The parts are locked.
func (u *underway) register(chains []digest.Digest, p *part) {
	if u.parts == nil {
		u.parts = map[digest.Digest]*part{}
	}
	for _, chain := range chains {
		u.parts[chain] = p
	}
}

// common is the part that brings the most of the layers beyond the first, and how many are there then.
func (u *underway) common(layers []image.Layer, chains []digest.Digest, first int) (*part, int) {
	for n := len(layers); n > first; n-- {
		if p, ok := u.parts[chains[n-1]]; ok && !p.failed() {
			return p, n
		}
	}
	return nil, first
}

// worthWaiting says whether whoever needs the part's layers up to common should wait until all of it is unpacked. If not,
// it has them unpacked a second time, beside the rest of the part.
func (p *part) worthWaiting(common int) bool {
	needed, rest := p.layers[:common-p.from], p.layers[common-p.from:]
	return bytesOf(rest) <= max(bytesOf(needed), smallWait)
}

func (u *underway) release(chains []digest.Digest, parts []*part) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, p := range parts {
		for _, chain := range chains[p.from:p.end] {
			if u.parts[chain] == p {
				delete(u.parts, chain)
			}
		}
	}
}

// chains identify each layer and all below it: their blobs and what those unpack to.
func chains(layers []image.Layer) []digest.Digest {
	sums := make([]digest.Digest, len(layers))
	var below digest.Digest
	for i, l := range layers {
		below = digest.FromString(fmt.Sprintf("%s %s %s", below, l.Descriptor.Digest, l.DiffID))
		sums[i] = below
	}
	return sums
}

// cut is where parts of at least size bytes end. The last one ends with the layers, also where it has none.
func cut(layers []image.Layer, first int, size int64) []int {
	left := bytesOf(layers[first:])
	size = max(size, left/maxParts)
	var ends []int
	var run int64
	for i, l := range layers[first:] {
		run += l.Descriptor.Size
		left -= l.Descriptor.Size
		if run >= size && left >= size {
			ends = append(ends, first+i+1)
			run = 0
		}
	}
	return append(ends, len(layers))
}

func bytesOf(layers []image.Layer) int64 {
	var n int64
	for _, l := range layers {
		n += l.Descriptor.Size
	}
	return n
}
