package entry

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/store"
)

const (
	// streamHead is how much of an archive is read at first where it is compressed as a whole, in bytes.
	streamHead = 64 << 10
	// maxParked is how many streams stay open between two layers: as many as images are read at once, as a rule.
	maxParked = 4
)

// streamed is the archive in an entry that actions/cache has written: one compressed stream, readable from its start
// only. Layers are read in order by nearly everyone who reads them, so that one stream serves them all, and whoever
// goes back starts anew. The other way, a copy of the whole on disk, would cost a lane that much disk beside the
// daemon's own copy, and the time until the last byte is there.
type streamed struct {
	ctx    context.Context // of Open: streams outlive the reading of one layer
	reader *Reader
	source prefixed
	offset int64 // of the archive in the tar
}

var (
	_ io.ReaderAt  = (*streamed)(nil)
	_ image.Ranger = (*streamed)(nil)
	_ image.Headed = (*streamed)(nil)
)

// openStream reads the head of the tar.
func (r *Reader) openStream(ctx context.Context, b Blob, prefix []byte, key string) (*streamed, int64, error) {
	s := &streamed{ctx: ctx, reader: r, source: prefixed{b, prefix}}
	c, err := s.start()
	if err != nil {
		return nil, 0, err
	}
	defer c.Close()
	offset, size, err := member(c, key)
	if err != nil {
		return nil, 0, err
	}
	s.offset = offset
	context.AfterFunc(ctx, func() { r.parking.drop(s) })
	return s, size, nil
}

// HeadSize implements image.Headed.
func (s *streamed) HeadSize() int64 { return streamHead }

// ReadAt implements io.ReaderAt. It is for the head and begins a stream each time, which costs little there.
func (s *streamed) ReadAt(p []byte, off int64) (int, error) {
	c, err := s.start()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return io.ReadFull(&section{closer: c, r: c, skip: s.offset + off, left: int64(len(p))}, p)
}

// Range implements image.Ranger.
func (s *streamed) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	c := s.reader.parking.take(s, s.offset+off)
	if c == nil {
		var err error
		if c, err = s.start(); err != nil {
			return nil, err
		}
	}
	lent := &lent{cursor: c, keep: context.AfterFunc(ctx, c.cancel)}
	lent.section = section{r: c, skip: s.offset + off - c.at, left: n}
	return lent, nil
}

// start opens a stream at the first byte of the tar.
func (s *streamed) start() (*cursor, error) {
	packed := &counter{r: newAheadReader(s.ctx, s.reader.budget, s.source, 0, s.source.pieces())}
	plain, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, fmt.Errorf("making the decompressor: %w", err)
	}
	return &cursor{of: s, packed: packed, plain: plain}, nil
}

// cursor is a stream that stands at some byte of the tar.
type cursor struct {
	of     *streamed
	packed *counter
	plain  *zstd.Decoder
	at     int64
}

// Read implements io.Reader. What does not decompress is store.ErrCorrupt.
func (c *cursor) Read(p []byte) (int, error) {
	n, err := c.plain.Read(p)
	c.at += int64(n)
	switch {
	case err == nil, err == io.EOF:
		return n, err
	case c.packed.err != nil:
		return n, c.packed.err
	}
	return n, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
}

func (c *cursor) ahead() *aheadReader { return c.packed.r.(*aheadReader) }

// cancel ends the reads under way.
func (c *cursor) cancel() { c.ahead().cancel() }

// Close ends the stream.
func (c *cursor) Close() error {
	c.plain.Close()
	return c.ahead().Close()
}

// lent is a cursor in use for one range.
type lent struct {
	section
	cursor *cursor
	keep   func() bool // says whether the context of the range has not ended it
	once   sync.Once
}

// Close gives the cursor back to go on from there, where it is good for that.
func (l *lent) Close() error {
	l.once.Do(func() {
		if l.keep() && l.left == 0 {
			l.cursor.of.reader.parking.park(l.cursor)
			return
		}
		l.cursor.Close()
	})
	return nil
}

// parking keeps the streams that nobody reads at the moment. Safe for concurrent use.
type parking struct {
	mu      sync.Mutex
	cursors []*cursor // the one parked last at the end
}

// take gives the cursor of s that has the shortest way to the byte at, or nil.
func (p *parking) take(s *streamed, at int64) *cursor {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := -1
	for i, c := range p.cursors {
		if c.of == s && c.at <= at && (best < 0 || c.at > p.cursors[best].at) {
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
		p.cursors[0].Close()
		p.cursors = slices.Delete(p.cursors, 0, 1)
	}
	p.cursors = append(p.cursors, c)
}

// drop ends the streams of s.
func (p *parking) drop(s *streamed) {
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

// prefixed are the compressed bytes: the prefix, which is at hand, and chunks of what follows.
type prefixed struct {
	blob   Blob
	prefix []byte
}

// pieces is their number.
func (p prefixed) pieces() int {
	rest := p.blob.Size() - int64(len(p.prefix))
	return 1 + int((rest+chunk-1)/chunk)
}

// piece implements pieces.
func (p prefixed) piece(ctx context.Context, i int, buf []byte) (data []byte, err error) {
	if i == 0 {
		return p.prefix, nil
	}
	off := int64(len(p.prefix)) + int64(i-1)*chunk
	n := int(min(chunk, p.blob.Size()-off))
	err = p.blob.Get(ctx, off, n, buf, func(got []byte) error { data = got; return nil })
	return data, err
}
