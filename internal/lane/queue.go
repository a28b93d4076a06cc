package lane

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
)

// patience is how long an image that is open waits for others that are still being opened. As a rule all are open within
// a few requests of each other; one that the store does not show yet is looked up for many seconds.
const patience = 200 * time.Millisecond

// queue lets open images go into the targets, some at a time. It sends the largest first: what is begun last decides
// when the lane ends, and had better be small.
type queue struct {
	// assembled is called before the first may go, with all that wait then.
	assembled func(waiting []*ticket)

	mu          sync.Mutex
	free        int // how many may go
	expected    int // how many may still come and are waited for
	waiting     []*ticket
	begun, open bool // whether assembled was called, and has returned
	bases       bases
}

// ticket is an image in the queue.
type ticket struct {
	opened
	turn   chan struct{}   // closed when its turn has come
	chains []digest.Digest // none where bases do not matter
	awaits *ticket         // the image that it has to wait for, if there is one
}

// newQueue expects so many images, of which limit go at a time.
func newQueue(limit, expected int, assembled func([]*ticket)) *queue {
	return &queue{assembled: assembled, free: limit, expected: expected}
}

// enter waits for the turn of an image. Who gets it gives it back with leave.
func (q *queue) enter(ctx context.Context, o opened) (*ticket, error) {
	t := &ticket{opened: o, turn: make(chan struct{})}
	if q.bases.matter {
		t.chains = chainsOf(o.img)
	}
	q.arrive(t)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case <-t.turn:
			return t, nil
		case <-timer.C:
			q.begin()
		case <-ctx.Done():
			q.give(t)
			return nil, context.Cause(ctx)
		}
	}
}

// pass says that an image that was expected does not come.
func (q *queue) pass() { q.arrive() }

// arrive takes one of those expected off the list, with its ticket if it has come.
func (q *queue) arrive(t ...*ticket) {
	q.mu.Lock()
	q.expected--
	q.waiting = append(q.waiting, t...)
	complete := q.expected <= 0
	q.next()
	q.mu.Unlock()
	if complete {
		q.begin()
	}
}

// begin waits for none of those expected any more.
func (q *queue) begin() {
	waiting, first := q.assembly()
	if !first {
		return
	}
	q.assembled(waiting)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = true
	q.next()
}

// assembly is what waits now; first says that nobody has asked before.
func (q *queue) assembly() (waiting []*ticket, first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first = !q.begun
	q.begun = true
	return slices.Clone(q.waiting), first
}

// unpacked notes that so many of the first layers of an image that has its turn are unpacked.
func (q *queue) unpacked(t *ticket, layers int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bases.unpacked(t, layers)
	q.next()
}

// leave gives the turn of a ticket back.
func (q *queue) leave(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended(t)
}

// ended takes what has had its turn off those that go. The queue is locked.
func (q *queue) ended(t *ticket) {
	q.bases.end(t)
	q.free++
	q.next()
}

// give gives back what a ticket has: its place in the queue, or its turn.
func (q *queue) give(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, t); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return
	}
	q.ended(t)
}

// next lets go as many as may. The queue is locked.
func (q *queue) next() {
	for q.free > 0 && q.open {
		largest := q.largest()
		if largest == nil {
			return
		}
		q.waiting = slices.DeleteFunc(q.waiting, func(t *ticket) bool { return t == largest })
		q.free--
		q.bases.begin(largest)
		close(largest.turn)
	}
}

// largest is the largest image that need not wait for another, or nil. The queue is locked.
func (q *queue) largest() *ticket {
	var largest *ticket
	for _, t := range q.waiting {
		if (largest == nil || t.img.Size() > largest.img.Size()) && !q.bases.wait(t) {
			largest = t
		}
	}
	return largest
}
