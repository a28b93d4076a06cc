package entry

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/store"
)

// framed is the archive in an entry of ours.
type framed struct {
	ctx    context.Context // of Open: reads of the head have none of their own
	reader *Reader
	blob   Blob
	prefix []byte
	frames []frame
	offset int64 // of the archive in the tar
}

var (
	_ io.ReaderAt  = (*framed)(nil)
	_ image.Ranger = (*framed)(nil)
	_ image.Headed = (*framed)(nil)
)

// openFramed reads the index, whose frame has so many bytes, and the head of the tar.
func (r *Reader) openFramed(ctx context.Context, b Blob, prefix []byte, key string, size int64) (*framed, int64, error) {
	f := &framed{ctx: ctx, reader: r, blob: b, prefix: prefix}
	if err := f.readIndex(size); err != nil {
		return nil, 0, err
	}
	head, err := f.open(ctx, 0, f.end())
	if err != nil {
		return nil, 0, err
	}
	defer head.Close()
	offset, n, err := member(head, key)
	if err != nil {
		return nil, 0, err
	}
	if offset+n+trailerSize != f.end() {
		return nil, 0, fmt.Errorf("%w: the archive ends at %d, the entry at %d", store.ErrCorrupt, offset+n, f.end())
	}
	f.offset = offset
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

// ReadAt implements io.ReaderAt.
func (f *framed) ReadAt(p []byte, off int64) (int, error) {
	rc, err := f.Range(f.ctx, off, int64(len(p)))
	if err != nil {
		return 0, err
	}
	defer rc.Close()
	return io.ReadFull(rc, p)
}

// Range implements image.Ranger.
func (f *framed) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	return f.open(ctx, f.offset+off, f.offset+off+n)
}

// open reads the tar from one offset to another.
func (f *framed) open(ctx context.Context, from, to int64) (io.ReadCloser, error) {
	first, last := f.frameAt(from), f.frameAt(to-1)
	if from < 0 || from > to || last == len(f.frames) {
		return nil, fmt.Errorf("%w: no bytes from %d to %d in %d", store.ErrCorrupt, from, to, f.end())
	}
	ahead := newAheadReader(ctx, f.reader.budget, f, first, last+1)
	return &section{closer: ahead, r: ahead, skip: from - f.frames[first].from, left: to - from}, nil
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
	closer     io.Closer
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

// Close closes what is beneath.
func (s *section) Close() error { return s.closer.Close() }

// noEOF makes an end that comes too early an error.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
