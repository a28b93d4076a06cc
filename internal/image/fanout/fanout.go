// Package fanout owns that one read of an image serves everybody who takes it: targets of a run, nodes of a cluster.
// Whoever takes no part, is slow, stalls or dies does not hold the others up for long, and never makes them fail. It
// does not know what the bytes are for.
package fanout

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/image"
)

// Patience is how long the others wait for one that does not move. After that it reads for itself.
const Patience = 10 * time.Second

// Window is how far the fastest may be ahead of the slowest, in bytes: what a read keeps in memory.
const Window = 2 << 20

// Each calls take n times at once, each time with img as one of n shares whose blobs are read once for all of them,
// and returns when all have. A share is good until its take returns; blobs stay open until ctx ends. A take that panics
// holds no other up; once all have returned, Each panics with the first such value, in the caller's goroutine, where it
// can be recovered.
func Each(ctx context.Context, img image.Image, n int, take func(i int, share image.Image)) {
	if n == 1 {
		take(0, img)
		return
	}
	g := newGroup(ctx, img)
	shares := make([]image.Image, n)
	for i := range n {
		b := &branch{group: g}
		g.branches = append(g.branches, b)
		shares[i] = img.Via(func(s image.Source) image.Source {
			g.source = s
			return b
		})
	}
	panics := make([]any, n)
	var takers sync.WaitGroup
	for i := range n {
		takers.Go(func() {
			defer g.branches[i].leave()
			defer func() { panics[i] = recover() }()
			take(i, shares[i])
		})
	}
	takers.Wait()
	for _, v := range panics {
		if v != nil {
			panic(v)
		}
	}
}

// group are the shares of one image. At any time one blob at most is read for several.
type group struct {
	ctx    context.Context // ends the reads that are nobody's own
	source image.Source
	order  map[digest.Digest]int // the layers' order, in which all read

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every change that somebody may wait for
	branches []*branch
	current  *read
	served   map[digest.Digest]bool // blobs that were read for several, and are not again
}

func newGroup(ctx context.Context, img image.Image) *group {
	g := &group{ctx: ctx, order: map[digest.Digest]int{}, served: map[digest.Digest]bool{}, changed: make(chan struct{})}
	for i, l := range img.Layers() {
		if _, ok := g.order[l.Descriptor.Digest]; !ok {
			g.order[l.Descriptor.Digest] = i
		}
	}
	return g
}

// signal wakes all who wait. The group is locked.
func (g *group) signal() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// wait gives the lock up until something changes, and says whether it did before ctx and the deadline ended.
func (g *group) wait(ctx context.Context, until time.Time) (changed bool) {
	changes := g.changed
	g.mu.Unlock()
	defer g.mu.Lock()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-changes:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// branch is the source of one share.
type branch struct {
	group *group
	// wants is the blob that the branch waits for; zero while it does something else.
	wants ocispec.Descriptor
	// given is how it reads that blob, once that has begun.
	given *reader
	// late says that the others went on without it; gone, that it wants nothing more.
	late, gone bool
}

var (
	_ image.Source    = (*branch)(nil)
	_ image.Announcer = (*branch)(nil)
)

// Blob implements image.Source. It waits for the others to want the blob as well, or to be gone. A blob that the
// others have had already is read for this branch alone.
func (b *branch) Blob(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	given, err := b.join(ctx, d)
	if given == nil && err == nil {
		return b.group.source.Blob(ctx, d)
	}
	return given, err
}

// Announce implements image.Announcer. All shares are read in one order, so that what one of them is to read is what comes.
func (b *branch) Announce(blobs []ocispec.Descriptor) {
	if announcer, ok := b.group.source.(image.Announcer); ok {
		announcer.Announce(blobs)
	}
}

// join takes part in the next read of the blob; nil means that there is none.
func (b *branch) join(ctx context.Context, d ocispec.Descriptor) (*reader, error) {
	g := b.group
	g.mu.Lock()
	defer g.mu.Unlock()
	defer func() { b.wants = ocispec.Descriptor{} }()
	if g.served[d.Digest] {
		b.alone()
		return nil, nil //nolint:nilnil // said above
	}
	b.wants, b.given, b.late = d, nil, false
	g.begin(false)
	until := time.Now().Add(Patience)
	for b.given == nil {
		if g.served[d.Digest] {
			b.alone()
			return nil, nil //nolint:nilnil // it was begun without this branch
		}
		if g.wait(ctx, until) {
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		g.begin(true)
		until = time.Now().Add(Patience)
	}
	b.given.ctx = ctx
	return b.given, nil
}

// alone says that the branch reads for itself now, so that nobody waits for it. The group is locked.
func (b *branch) alone() {
	b.wants, b.late = ocispec.Descriptor{}, true
	b.group.begin(false)
}

// leave says that the branch wants nothing more.
func (b *branch) leave() {
	b.group.mu.Lock()
	defer b.group.mu.Unlock()
	b.gone = true
	b.group.begin(false)
}

// begin begins the read of the first blob that somebody waits for, for all who do, once everybody waits for one, is
// late or is gone. Impatient, it takes those who do not wait for late. Nothing begins while another is being read.
func (g *group) begin(impatient bool) {
	if g.current != nil {
		if impatient {
			g.current.detachIdle()
		}
		return
	}
	var next ocispec.Descriptor
	for _, b := range g.branches {
		switch {
		case b.gone || b.late:
		case b.wants.Digest == "" && impatient:
			b.late = true
		case b.wants.Digest == "":
			return
		case next.Digest == "" || g.order[b.wants.Digest] < g.order[next.Digest]:
			next = b.wants
		}
	}
	if next.Digest == "" {
		return
	}
	g.current = &read{group: g, blob: next}
	g.served[next.Digest] = true
	for _, b := range g.branches {
		if b.wants.Digest == next.Digest {
			b.given = &reader{branch: b, read: g.current, moved: time.Now()}
			g.current.readers = append(g.current.readers, b.given)
		}
	}
	g.signal()
}
