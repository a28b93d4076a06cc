package entry

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// maxParked is how many cursors stay open between two layers: as many as images are read at once, as a rule.
	maxParked = 4
	// parkTime is how long what a parked cursor has read ahead stays its own, even if others could do with its part of the
	// budget.
	parkTime = time.Second
)

// cursor reads the tar of an entry from some byte on. It outlives the reading of one layer: nearly everyone reads them in
// order, and then the next one has begun to come before it is asked for.
type cursor struct {
	of     *source
	r      io.Reader
	at     int64        // of the byte to be read next
	end    int64        // behind which there is nothing that anyone would ask for
	ahead  *aheadReader // beneath r
	closer func()       // ends what is between r and ahead; may be nil
	parked time.Time
}

// source is an entry that cursors read.
type source struct {
	ctx     context.Context // of Open: cursors outlive the reading of one layer
	parking *parking
	// reach is how many bytes a cursor may be away from one that is asked for and still be of use.
	reach int64
	// start opens a cursor for the n bytes from the byte at on; it may begin in front of them.
	start func(at, n int64) (*cursor, error)
}

// Read implements io.Reader.
func (c *cursor) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.at += int64(n)
	return n, err
}

// Close ends what is under way.
func (c *cursor) Close() {
	if c.closer != nil {
		c.closer()
	}
	_ = c.ahead.Close() // it returns none
}

// open reads n bytes of the tar from the byte at on, until ctx ends.
func (s *source) open(ctx context.Context, at, n int64) (io.ReadCloser, error) {
	c := s.parking.take(s, at)
	if c == nil {
		var err error
		if c, err = s.start(at, n); err != nil {
			return nil, err
		}
	}
	l := &lent{cursor: c, section: section{r: c, skip: at - c.at, left: n}}
	l.keep = context.AfterFunc(ctx, func() { c.ahead.cancel(context.Cause(ctx)) })
	return l, nil
}

// lent is a cursor in use for one section.
type lent struct {
	section
	cursor *cursor
	keep   func() bool // says whether the context of the section has not ended the cursor
	once   sync.Once
}

// Close gives the cursor back to go on from there, where it is good for that.
func (l *lent) Close() error {
	l.once.Do(func() {
		if l.keep() && l.left == 0 && l.cursor.end-l.cursor.at >= blockSize {
			l.cursor.of.parking.park(l.cursor)
			return
		}
		l.cursor.Close()
	})
	return nil
}

// parking keeps the cursors that nobody reads with at the moment. Safe for concurrent use.
type parking struct {
	mu      sync.Mutex
	cursors []*cursor // the one parked last at the end
}

// take gives the cursor of s that has the shortest way to the byte at, or nil.
func (p *parking) take(s *source, at int64) *cursor {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := -1
	for i, c := range p.cursors {
		if c.of == s && c.at <= at && at-c.at <= s.reach && (best < 0 || c.at > p.cursors[best].at) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	c := p.cursors[best]
	p.cursors = slices.Delete(p.cursors, best, best+1)
	return c
}

// park keeps c, and ends the one that was kept longest where there are too many, or c itself where nobody can ask for it.
func (p *parking) park(c *cursor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.of.ctx.Err() != nil {
		c.Close()
		return
	}
	if len(p.cursors) == maxParked {
		p.endFirst()
	}
	c.parked = time.Now()
	p.cursors = append(p.cursors, c)
}

// endFirst ends the cursor that was parked longest.
func (p *parking) endFirst() {
	p.cursors[0].Close()
	p.cursors = slices.Delete(p.cursors, 0, 1)
}

// clear ends a cursor that has been parked for some time, for those who need what it holds, and says whether there was one.
func (p *parking) clear() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.cursors) == 0 || time.Since(p.cursors[0].parked) < parkTime {
		return false
	}
	p.endFirst()
	return true
}

// drop ends the cursors of s.
func (p *parking) drop(s *source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cursors = slices.DeleteFunc(p.cursors, func(c *cursor) bool {
		if c.of != s {
			return false
		}
		c.Close()
		return true
	})
}
