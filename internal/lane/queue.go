package lane

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// patience is how long an image that is open waits for others that are still being opened. As a rule all are open within
// a few requests of each other; one that the store does not show yet is looked up for many seconds.
const patience = 200 * time.Millisecond

// queue lets open images go into the targets, some at a time. It sends the largest first: what is begun last decides
// when the lane ends, and had better be small.
type queue struct {
	mu       sync.Mutex
	free     int // how many may go
	expected int // how many may still come and are waited for
	waiting  []*ticket
}

// ticket is an image in the queue.
type ticket struct {
	size int64
	turn chan struct{} // closed when its turn has come
}

// newQueue expects so many images, of which limit go at a time.
func newQueue(limit, expected int) *queue { return &queue{free: limit, expected: expected} }

// enter waits for the turn of an image of size bytes. Who gets it gives it back with leave.
func (q *queue) enter(ctx context.Context, size int64) (leave func(), err error) {
	t := &ticket{size: size, turn: make(chan struct{})}
	defer time.AfterFunc(patience, q.begin).Stop()
	q.arrive(t)
	select {
	case <-t.turn:
		return q.leave, nil
	case <-ctx.Done():
		q.give(t)
		return nil, context.Cause(ctx)
	}
}

// pass says that an image that was expected does not come.
func (q *queue) pass() { q.arrive() }

// arrive takes one of those expected off the list, with its ticket if it has come.
func (q *queue) arrive(t ...*ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expected = max(0, q.expected-1)
	q.waiting = append(q.waiting, t...)
	q.next()
}

// begin waits for none of those expected any more.
func (q *queue) begin() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expected = 0
	q.next()
}

func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
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
	q.free++
	q.next()
}

// next lets go as many as may. The queue is locked.
func (q *queue) next() {
	for q.free > 0 && q.expected == 0 && len(q.waiting) > 0 {
		largest := slices.MaxFunc(q.waiting, func(a, b *ticket) int { return cmp.Compare(a.size, b.size) })
		q.waiting = slices.DeleteFunc(q.waiting, func(t *ticket) bool { return t == largest })
		q.free--
		close(largest.turn)
	}
}
