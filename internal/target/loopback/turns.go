package loopback

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	// settleTime is how long layers wait for one below them: a client asks for several at once, which arrive in any order.
	settleTime = 10 * time.Millisecond
	// maxTries is how often a layer is sent away. Containerd's fetcher gives up at the fourth connection in a row that ends
	// without a byte (core/remotes/docker/httpreadseeker.go).
	maxTries = 3
)

// errAgain says that a layer is to be asked for again, behind others.
var errAgain = errors.New("not yet its turn")

// turns lets layers be read one at a time, the lowest first: that is the order in which a daemon unpacks them, and in which
// the shares of a fan-out read.
//
// A client has a few layers open at once, and the others wait for one of these to end. Which they are is chance with
// containerd. So turns that sort send layers away which are open too early, to the end of that queue.
type turns struct {
	sorts bool

	mu      sync.Mutex
	layers  []state
	all     bool // every layer that is wanted has been asked for
	busy    bool // one is being read
	begun   bool // one was
	waiting []turn
	settled *time.Timer
}

// state is what is known of a layer.
type state struct {
	wanted, given bool
	tries         int // how often it was sent away
}

// turn is a request for a layer that waits.
type turn struct {
	layer  int
	answer chan error // nil: it is its turn
}

func newTurns(layers int, sorts bool) *turns {
	t := &turns{sorts: sorts, layers: make([]state, layers)}
	t.settled = time.AfterFunc(settleTime, t.settle)
	t.settled.Stop()
	return t
}

// stop ends what would happen later. No turn is taken any more.
func (t *turns) stop() { t.settled.Stop() }

// take waits for the turn of a layer, until it is known that it must be asked for again, which is errAgain, or for the end of
// ctx.
func (t *turns) take(ctx context.Context, layer int) (done func(), err error) {
	mine := turn{layer, make(chan error, 1)}
	t.ask(mine)
	select {
	case err := <-mine.answer:
		return t.done, err
	case <-ctx.Done():
		t.leave(mine)
		return nil, context.Cause(ctx)
	}
}

// ask puts a request among those that wait.
func (t *turns) ask(mine turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.layers[mine.layer]
	t.all = t.all || s.tries > 0 // the queue has come round
	s.wanted = true
	t.waiting = append(t.waiting, mine)
	t.next()
}

// due is the lowest layer that was not read and will be, as far as is known. The turns are locked.
func (t *turns) due() int {
	return slices.IndexFunc(t.layers, func(s state) bool { return !s.given && (s.wanted || !t.all) })
}

// next gives the turn to whom it is due, or to the lowest where nothing can be done about that. The turns are locked.
func (t *turns) next() {
	t.settled.Stop()
	if len(t.waiting) == 0 {
		return
	}
	lowest, due := slices.MinFunc(t.waiting, byLayer), t.due()
	_, early := t.early()
	switch {
	case due >= 0 && lowest.layer > due && (early || !t.begun):
		t.settled.Reset(settleTime)
	case !t.busy:
		t.give(lowest)
	}
}

// settle sends away the highest layer that waits, or gives the turn to the lowest, once nobody else has come.
func (t *turns) settle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		return
	}
	lowest := slices.MinFunc(t.waiting, byLayer)
	if lowest.layer <= t.due() {
		return // it has come meanwhile
	}
	if highest, early := t.early(); early {
		t.layers[highest.layer].tries++
		t.remove(highest)
		highest.answer <- errAgain
		t.next()
		return
	}
	if !t.busy {
		t.give(lowest)
	}
}

// early is the highest layer that waits and may be sent away, if there is one. The turns are locked.
func (t *turns) early() (highest turn, found bool) {
	for _, w := range t.waiting {
		if t.sorts && t.layers[w.layer].tries < maxTries && (!found || w.layer > highest.layer) {
			highest, found = w, true
		}
	}
	return highest, found
}

// give gives the turn. The turns are locked.
func (t *turns) give(to turn) {
	t.remove(to)
	t.busy, t.begun, t.layers[to.layer].given = true, true, true
	to.answer <- nil
	t.next() // the one after it may have to be found meanwhile
}

// remove takes a request from those that wait, and says whether it was there. The turns are locked.
func (t *turns) remove(gone turn) bool {
	before := len(t.waiting)
	t.waiting = slices.DeleteFunc(t.waiting, func(other turn) bool { return other.answer == gone.answer })
	return len(t.waiting) < before
}

// done gives the turn back.
func (t *turns) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy = false
	t.next()
}

// coming are the layers above layer that wait for their turn, in the order in which they will have it, as far as is known.
func (t *turns) coming(layer int) []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	var above []int
	for _, w := range t.waiting {
		if w.layer > layer {
			above = append(above, w.layer)
		}
	}
	slices.Sort(above)
	return slices.Compact(above)
}

// leave gives up waiting for a turn that may have been given meanwhile.
func (t *turns) leave(mine turn) {
	t.mu.Lock()
	waited := t.remove(mine)
	t.mu.Unlock()
	if !waited && <-mine.answer == nil {
		t.done()
	}
}

func byLayer(a, b turn) int { return cmp.Compare(a.layer, b.layer) }
