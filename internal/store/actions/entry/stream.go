package entry

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/store"
)

// streamHead is how much of an archive is read at first where it is compressed as a whole, in bytes.
const streamHead = 64 << 10

// streamed is the archive in an entry that actions/cache has written: one compressed stream, readable from its start
// only. Layers are read in order by nearly everyone who reads them, so that one stream serves them all, and whoever
// goes back starts anew. The other way, a copy of the whole on disk, would cost a lane that much disk beside the
// daemon's own copy, and the time until the last byte is there.
type streamed struct {
	source
	reader *Reader
	packed prefixed
	offset int64 // of the archive in the tar
	end    int64 // of its last layer
}

var (
	_ io.ReaderAt  = (*streamed)(nil)
	_ image.Ranger = (*streamed)(nil)
	_ image.Headed = (*streamed)(nil)
)

// openStream reads the head of the tar.
func (r *Reader) openStream(ctx context.Context, b Blob, prefix []byte, key string) (*streamed, int64, error) {
	s := &streamed{reader: r, packed: prefixed{b, prefix}, end: math.MaxInt64}
	s.source = source{ctx: ctx, parking: &r.parking, reach: math.MaxInt64, start: s.start}
	c, err := s.start(0, 0)
	if err != nil {
		return nil, 0, err
	}
	defer c.Close()
	offset, size, err := member(c, key)
	if err != nil {
		return nil, 0, err
	}
	s.offset, s.end = offset, offset+size-trailerSize
	context.AfterFunc(ctx, func() { r.parking.drop(&s.source) })
	return s, size, nil
}

// HeadSize implements image.Headed.
func (s *streamed) HeadSize() int64 { return streamHead }

// ReadAt implements io.ReaderAt. It is for the head and begins a stream each time, which costs little there.
func (s *streamed) ReadAt(p []byte, off int64) (int, error) {
	c, err := s.start(0, 0)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return io.ReadFull(&section{r: c, skip: s.offset + off, left: int64(len(p))}, p)
}

// Range implements image.Ranger.
func (s *streamed) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	return s.open(ctx, s.offset+off, n)
}

// start opens a stream at the first byte of the tar.
func (s *streamed) start(_, _ int64) (*cursor, error) {
	ahead := newAheadReader(s.ctx, s.reader, s.packed, 0, s.packed.pieces())
	u := &unpacked{packed: &counter{r: ahead}}
	var err error
	if u.plain, err = zstd.NewReader(u.packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow)); err != nil {
		return nil, fmt.Errorf("making the decompressor: %w", err)
	}
	return &cursor{of: &s.source, r: u, end: s.end, ahead: ahead, closer: u.plain.Close}, nil
}

// unpacked is what a stream decompresses to.
type unpacked struct {
	packed *counter
	plain  *zstd.Decoder
}

// Read implements io.Reader. What does not decompress is store.ErrCorrupt.
func (u *unpacked) Read(p []byte) (int, error) {
	n, err := u.plain.Read(p)
	switch {
	case err == nil, err == io.EOF:
		return n, err
	case u.packed.err != nil:
		return n, u.packed.err
	}
	return n, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
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
