package entry

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/store"
)

// framed is the archive in an entry of ours.
type framed struct {
	source
	reader *Reader
	blob   Blob
	prefix []byte
	frames []frame
	offset int64 // of the archive in the tar

	mu        sync.Mutex
	announced []image.Extent
}

var (
	_ io.ReaderAt       = (*framed)(nil)
	_ image.Ranger      = (*framed)(nil)
	_ image.Headed      = (*framed)(nil)
	_ image.Foresighted = (*framed)(nil)
)

// openFramed reads the index, whose frame has so many bytes, and the head of the tar.
func (r *Reader) openFramed(ctx context.Context, b Blob, prefix []byte, key string, size int64) (*framed, int64, error) {
	f := &framed{reader: r, blob: b, prefix: prefix}
	f.source = source{ctx: ctx, parking: &r.parking, reach: blockSize - 1, start: f.start} // no more than padding is passed
	if err := f.readIndex(size); err != nil {
		return nil, 0, err
	}
	head := newAheadReader(ctx, r, f, 0, len(f.frames))
	defer head.Close()
	offset, n, err := member(head, key)
	if err != nil {
		return nil, 0, err
	}
	if offset+n+trailerSize != f.end() {
		return nil, 0, fmt.Errorf("%w: the archive ends at %d, the entry at %d", store.ErrCorrupt, offset+n, f.end())
	}
	f.offset = offset
	context.AfterFunc(ctx, func() { r.parking.drop(&f.source) })
	return f, n, nil
}

func (f *framed) readIndex(size int64) error {
	if size < int64(indexHead+indexTail) || size > min(maxIndex, f.blob.Size()) {
		return fmt.Errorf("%w: an index of %d bytes in %d", store.ErrCorrupt, size, f.blob.Size())
	}
	parse := func(data []byte) (err error) {
		if f.frames, err = parseIndex(data, f.blob.Size()); err != nil {
			return fmt.Errorf("%w: index: %w", store.ErrCorrupt, err)
		}
		return nil
	}
	if size <= int64(len(f.prefix)) && parse(f.prefix[:size]) == nil {
		return nil
	}
	return f.blob.Get(f.ctx, 0, int(size), nil, parse)
}

// end is the size of the tar.
func (f *framed) end() int64 { return f.frames[len(f.frames)-1].end() }

// HeadSize implements image.Headed: the frames that hold the head are its alone.
func (f *framed) HeadSize() int64 { return f.frames[0].end() - f.offset }

// ReadAt implements io.ReaderAt. It is for the head.
func (f *framed) ReadAt(p []byte, off int64) (int, error) {
	n := int64(len(p))
	if err := f.check(off, n); err != nil {
		return 0, err
	}
	c := f.cursor(f.offset+off, f.offset+off+n)
	defer c.Close()
	return io.ReadFull(&section{r: c, skip: f.offset + off - c.at, left: n}, p)
}

// Range implements image.Ranger.
func (f *framed) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if err := f.check(off, n); err != nil {
		return nil, err
	}
	return f.open(ctx, f.offset+off, n)
}

// check refuses what is not in the archive.
func (f *framed) check(off, n int64) error {
	if off < 0 || n < 0 || f.offset+off+n > f.end() {
		return fmt.Errorf("%w: no %d bytes from %d on in %d", store.ErrCorrupt, n, off, f.end()-f.offset)
	}
	return nil
}

// Announce implements image.Foresighted.
func (f *framed) Announce(extents []image.Extent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.announced = extents
}

// start opens a cursor for n bytes, and for what comes behind them as far as that is announced.
func (f *framed) start(at, n int64) (*cursor, error) {
	return f.cursor(at, max(at+n, f.offset+f.foreseen(at-f.offset))), nil
}

// foreseen is where what is announced to be read from off on ends; 0 is nothing.
func (f *framed) foreseen(off int64) (end int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.announced {
		if e.Off == off || e.Off == end && end > 0 {
			end = e.Off + e.N
		}
	}
	return end
}

// cursor reads the tar from the frame that holds one byte to the one in front of another.
func (f *framed) cursor(from, to int64) *cursor {
	first, last := f.frameAt(from), f.frameAt(to-1)
	ahead := newAheadReader(f.ctx, f.reader, f, first, min(last+1, len(f.frames)))
	ahead.window = maxAhead
	return &cursor{of: &f.source, r: ahead, at: f.frames[first].from, end: to, ahead: ahead}
}

// frameAt is the frame that holds the byte at off.
func (f *framed) frameAt(off int64) int {
	i, _ := slices.BinarySearchFunc(f.frames, off, func(f frame, off int64) int {
		if f.end() <= off {
			return -1
		}
		return 1
	})
	return i
}

// piece implements pieces: it is a frame.
func (f *framed) piece(ctx context.Context, i int, buf []byte) (data []byte, err error) {
	fr := f.frames[i]
	unpack := func(packed []byte) (err error) {
		data, err = f.reader.unpack(packed, buf, fr.raw)
		return err
	}
	if end := fr.at + int64(fr.size); end <= int64(len(f.prefix)) && unpack(f.prefix[fr.at:end]) == nil {
		return data, nil
	}
	packed := f.reader.budget.buffer()
	defer f.reader.budget.free(packed)
	err = f.blob.Get(ctx, fr.at, fr.size, packed, unpack)
	return data, err
}

// unpack decompresses one frame, which has a checksum. Anything but the size expected is store.ErrCorrupt.
func (r *Reader) unpack(packed, buf []byte, size int) ([]byte, error) {
	data, err := r.decoder.DecodeAll(packed, buf[:0])
	if err == nil && len(data) != size {
		err = fmt.Errorf("%d bytes, %d were expected", len(data), size)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: frame: %w", store.ErrCorrupt, err)
	}
	return data, nil
}

// section is so many bytes of a reader, after some that are skipped.
type section struct {
	r          io.Reader
	skip, left int64
}

// Read implements io.Reader. A reader that ends before the section does is io.ErrUnexpectedEOF.
func (s *section) Read(p []byte) (int, error) {
	if s.skip > 0 {
		n, err := io.CopyN(io.Discard, s.r, s.skip)
		if s.skip -= n; err != nil {
			return 0, noEOF(err)
		}
	}
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	return n, noEOF(err)
}

// noEOF makes an end that comes too early an error.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
