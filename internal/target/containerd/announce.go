package containerd

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullonce/pullonce/internal/image"
)

// announceTime is how long a load waits for an earlier one to say which layers it brings. It only saves reading them twice.
const announceTime = 2 * time.Second

// queue are the loads of one namespace that have not said yet which layers they bring, in their order. Several namespaces
// that images are announced to in one order share the layers of these in one way, so that each is read by one image alone.
// The zero value works.
type queue struct {
	mu      sync.Mutex
	waiting []*ticket
}

// ticket is the place of a load in the queue.
type ticket struct {
	base   digest.Digest // the first layer: images that differ in it have none in common
	called chan struct{} // closed once the load has said what it brings, or will bring nothing
}

func (q *queue) enter(img image.Image) *ticket {
	t := &ticket{called: make(chan struct{})}
	if all := chains(img.Layers()[:min(1, len(img.Layers()))]); len(all) > 0 {
		t.base = all[0]
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if img.Awaitable() {
		q.waiting = append(q.waiting, t)
	}
	return t
}

// leave takes a ticket out of the queue. It may be done again.
func (q *queue) leave(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, t); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		close(t.called)
	}
}

// turn waits for the earlier loads that may bring layers which are wanted here as well: for a time, because one of them
// may itself be waiting for this one, to be done with a name.
func (q *queue) turn(ctx context.Context, t *ticket) {
	ctx, cancel := context.WithTimeout(ctx, announceTime)
	defer cancel()
	for _, earlier := range q.before(t) {
		if await(ctx, earlier.called) != nil {
			return
		}
	}
}

func (q *queue) before(t *ticket) []*ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	earlier := q.waiting
	if i := slices.Index(q.waiting, t); i >= 0 {
		earlier = earlier[:i]
	}
	return slices.DeleteFunc(slices.Clone(earlier), func(other *ticket) bool { return other.base != t.base })
}
