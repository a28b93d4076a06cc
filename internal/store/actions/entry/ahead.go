package entry

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// maxAhead is how many chunks one reader reads ahead at most.
const maxAhead = 6

// budget is what all readers of a process share: the right to read ahead, and buffers to use again. It bounds memory:
// each chunk that is read ahead, and the one that each reader has in any case, take a buffer for what comes and one for
// what is made of it, of 2 MiB each. Safe for concurrent use.
type budget struct {
	total   int // chunks to read ahead
	ahead   *semaphore.Weighted
	readers atomic.Int32
	buffers chan []byte
}

func newBudget(ahead int) *budget {
	return &budget{total: ahead, ahead: semaphore.NewWeighted(int64(ahead)), buffers: make(chan []byte, 2*(ahead+2))}
}

// share is how far each reader may read ahead, so that one whose bytes are consumed slowly leaves something to the others.
func (b *budget) share() int { return max(1, b.total/max(1, int(b.readers.Load()))) }

// buffer is an empty buffer with room for a chunk or a frame.
func (b *budget) buffer() []byte {
	select {
	case buf := <-b.buffers:
		return buf[:0]
	default:
		return make([]byte, 0, maxFrame)
	}
}

// free takes a buffer back. What is not needed goes to the garbage collector.
func (b *budget) free(buf []byte) {
	if cap(buf) != maxFrame {
		return
	}
	select {
	case b.buffers <- buf:
	default:
	}
}

// pieces are what a reader reads, one after the other. Safe for concurrent use.
type pieces interface {
	// piece gives piece i, in buf where it has room. The error of a context that has ended is its cause.
	piece(ctx context.Context, i int, buf []byte) ([]byte, error)
}

// aheadReader reads pieces in their order and gets the next ones while one is consumed. Unless it is told that all are
// wanted it starts without, and reads ahead twice as far each time another piece is asked for: a reader that wants only a
// little fetches only a little.
type aheadReader struct {
	ctx    context.Context // of the pieces under way
	cancel context.CancelCauseFunc
	group  errgroup.Group
	budget *budget
	clear  func() bool // frees some of the budget, where there is something to free
	source pieces

	next, last int  // the piece to fetch next, and the one behind the last
	window     int  // how many are read ahead
	alone      bool // whether a piece has the place that every reader has, budget or not
	current    *pending
	pending    []*pending // what comes after the current one
	left       []byte     // of the current one
	err        error
	closed     bool
}

// pending is a piece under way.
type pending struct {
	done chan struct{}
	buf  []byte
	data []byte
	err  error
	paid bool // from the budget
}

// newAheadReader reads the pieces from first to before last.
func newAheadReader(ctx context.Context, r *Reader, source pieces, first, last int) *aheadReader {
	ctx, cancel := context.WithCancelCause(ctx)
	r.budget.readers.Add(1)
	return &aheadReader{ctx: ctx, cancel: cancel, budget: r.budget, clear: r.parking.clear, source: source, next: first, last: last}
}

// Read implements io.Reader.
func (r *aheadReader) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		if r.err == nil {
			r.err = r.advance()
		}
		if r.err != nil {
			return 0, r.err
		}
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// advance waits for the next piece, the current one having been consumed.
func (r *aheadReader) advance() error {
	r.release(r.current)
	r.current = nil
	r.order()
	if len(r.pending) == 0 {
		return io.EOF
	}
	r.current, r.pending = r.pending[0], r.pending[1:]
	select {
	case <-r.current.done:
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
	r.left = r.current.data
	return r.current.err
}

// order sends for the next pieces: one in any case, more as far as window and budget go.
func (r *aheadReader) order() {
	for r.next < r.last && len(r.pending) <= min(r.window, r.budget.share()) {
		paid := r.alone
		if paid && !r.pay() {
			break
		}
		r.alone = true
		p := &pending{done: make(chan struct{}), buf: r.budget.buffer(), paid: paid}
		r.pending = append(r.pending, p)
		i := r.next
		r.next++
		r.group.Go(func() error {
			defer close(p.done)
			p.data, p.err = r.piece(i, p.buf)
			return nil
		})
	}
	r.window = min(max(2*r.window, 1), maxAhead)
}

// pay takes a part of the budget, if need be from those who only keep it.
func (r *aheadReader) pay() bool {
	return r.budget.ahead.TryAcquire(1) || r.clear() && r.budget.ahead.TryAcquire(1)
}

// piece gets piece i. A panic becomes an error of that piece: where it runs nobody else can catch it, and it would end
// the process.
func (r *aheadReader) piece(i int, buf []byte) (data []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			data, err = nil, fmt.Errorf("reading piece %d panicked: %v", i, v)
		}
	}()
	return r.source.piece(r.ctx, i, buf)
}

// release gives back what a piece took.
func (r *aheadReader) release(p *pending) {
	if p == nil {
		return
	}
	r.budget.free(p.buf)
	if p.paid {
		r.budget.ahead.Release(1)
	} else {
		r.alone = false
	}
}

// Close ends what is under way and waits for that. Twice is fine.
func (r *aheadReader) Close() error {
	if !r.closed {
		r.closed = true
		r.budget.readers.Add(-1)
	}
	r.cancel(io.ErrClosedPipe)
	_ = r.group.Wait() // no piece returns an error: it holds it
	r.release(r.current)
	for _, p := range r.pending {
		r.release(p)
	}
	r.current, r.pending, r.left = nil, nil, nil
	if r.err == nil {
		r.err = io.ErrClosedPipe
	}
	return nil
}
