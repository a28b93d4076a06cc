package loopback

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// settleTime is how long the first to ask waits for one below it: a client asks for several layers at once, and they
// arrive in any order.
const settleTime = 20 * time.Millisecond

// turns lets layers be read one at a time, the lowest of those that wait first: that is the order in which a daemon
// unpacks them, and in which the shares of a fan-out read.
type turns struct {
	begun chan struct{} // closed once the first has asked in earnest

	mu      sync.Mutex
	busy    bool
	waiting []turn
}

func newTurns() *turns { return &turns{begun: make(chan struct{})} }

type turn struct {
	layer int
	given chan struct{}
}

// take waits for the turn of a layer, or for the end of ctx.
func (t *turns) take(ctx context.Context, layer int) (done func(), err error) {
	if err := t.settle(ctx, layer); err != nil {
		return nil, err
	}
	mine := turn{layer, make(chan struct{})}
	t.ask(mine)
	select {
	case <-mine.given:
		return t.done, nil
	case <-ctx.Done():
		t.leave(mine)
		return nil, context.Cause(ctx)
	}
}

// settle gives a lower layer the time to be asked for, where none was yet.
func (t *turns) settle(ctx context.Context, layer int) error {
	if layer == 0 {
		return nil
	}
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-t.begun:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// ask puts a turn among those that wait.
func (t *turns) ask(mine turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.begun:
	default:
		close(t.begun)
	}
	t.waiting = append(t.waiting, mine)
	t.next()
}

// next gives the turn to the lowest layer that waits. The turns are locked.
func (t *turns) next() {
	if t.busy || len(t.waiting) == 0 {
		return
	}
	lowest := slices.MinFunc(t.waiting, func(a, b turn) int { return cmp.Compare(a.layer, b.layer) })
	t.remove(lowest)
	t.busy = true
	close(lowest.given)
}

// remove takes a turn from those that wait, and says whether it was there. The turns are locked.
func (t *turns) remove(gone turn) bool {
	before := len(t.waiting)
	t.waiting = slices.DeleteFunc(t.waiting, func(other turn) bool { return other.given == gone.given })
	return len(t.waiting) < before
}

// done gives the turn back.
func (t *turns) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy = false
	t.next()
}

// leave gives up waiting for a turn that may have been given meanwhile.
func (t *turns) leave(mine turn) {
	t.mu.Lock()
	waits := t.remove(mine)
	t.mu.Unlock()
	if !waits {
		t.done()
	}
}
