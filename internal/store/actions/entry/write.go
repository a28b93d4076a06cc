package entry

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/pullonce/pullonce/internal/image"
)

// BlockSize is the most that a block of an entry has, in bytes: three frames that do not compress. It is what is sent again
// when a connection breaks, and what a request is made for.
const BlockSize = 3 * maxFrame

// Blocks is where the blocks of an entry go, and where the memory for them comes from.
type Blocks interface {
	// Room gives an empty buffer with room for BlockSize bytes, as soon as there is one.
	Room(ctx context.Context) ([]byte, error)
	// Free takes a buffer back that no block was made in.
	Free(buf []byte)
	// Block takes block i over, with the buffer from Room that it is in.
	Block(i int, data []byte) error
}

// Writer makes entries. What compresses is bounded, however many are made at once. Safe for concurrent use.
type Writer struct{ encoder *zstd.Encoder }

// NewWriter makes a Writer.
//
// Layers are compressed as they are, so the fastest level does: it stores what does not shrink, at 2.7 GB/s on a core where
// the next level makes 2.6 and the one after it 0.9, for the same size.
func NewWriter() (*Writer, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("making the compressor: %w", err)
	}
	return &Writer{encoder}, nil
}

// Draft is the entry of an image, before its bytes are made: which frames it has, and which of them are sent together.
type Draft struct {
	writer  *Writer
	img     image.Image
	members []byte // of the outer tar, in front of the archive
	frames  []int  // their sizes, uncompressed
	cuts    []int  // the number of frames before the end of each block
	whole   bool   // all is one block, the index included
}

// Draft plans img's entry of key. at becomes the time of the archive.
//
// Frames end where the archive's sections do, so that a layer is read without its neighbours.
func (w *Writer) Draft(key string, img image.Image, at time.Time) (*Draft, error) {
	head, err := members(key, image.EncodedSize(img), at)
	if err != nil {
		return nil, err
	}
	d := &Draft{writer: w, img: img, members: head, frames: sizes(img, int64(len(head)))}
	index := indexSize(len(d.frames))
	if index > maxIndex {
		return nil, fmt.Errorf("an index of %d bytes, at most %d are allowed", index, maxIndex)
	}
	most := 0
	for i, raw := range d.frames {
		packed := w.encoder.MaxEncodedSize(raw)
		if most > 0 && most+packed > BlockSize {
			d.cuts = append(d.cuts, i)
			most = 0
		}
		most += packed
	}
	d.whole = len(d.cuts) == 0 && int64(most)+index <= BlockSize
	d.cuts = append(d.cuts, len(d.frames))
	return d, nil
}

// Blocks is how many there are: one where the entry is small, else one for the index, which is the first, and those of the
// frames.
func (d *Draft) Blocks() int {
	if d.whole {
		return 1
	}
	return 1 + len(d.cuts)
}

// Write makes the blocks and gives the size of them all, in bytes. Layers are verified as they are read. The first block is
// made last, once all frames are known: what it begins with is the index. Written twice, an image makes the same blocks.
func (d *Draft) Write(ctx context.Context, to Blocks) (int64, error) {
	f := &frameWriter{ctx: ctx, draft: d, to: to, raw: make([]byte, 0, min(chunk, image.EncodedSize(d.img)+trailerSize)), size: indexSize(len(d.frames))}
	defer f.close()
	if _, err := f.Write(d.members); err != nil {
		return 0, err
	}
	if err := image.Encode(ctx, f, d.img); err != nil {
		return 0, err
	}
	if _, err := f.Write(make([]byte, trailerSize)); err != nil {
		return 0, err
	}
	return f.size, f.finish()
}

// sizes are those of the frames, uncompressed: the head with the outer members that come before it, each layer, and the
// trailers.
func sizes(img image.Image, before int64) []int {
	cuts := append(image.Sections(img), image.EncodedSize(img)+trailerSize)
	var all []int
	from := -before
	for _, to := range cuts {
		for ; to-from > chunk; from += chunk {
			all = append(all, chunk)
		}
		if to > from {
			all = append(all, int(to-from))
		}
		from = to
	}
	return all
}

// frameWriter cuts what is written into frames, and puts these together to blocks.
type frameWriter struct {
	ctx   context.Context // of Draft.Write
	draft *Draft
	to    Blocks

	frames []frame
	blocks int    // how many were made
	size   int64  // of the index and all frames so far
	raw    []byte // what the frame at hand has so far
	block  []byte // what the block at hand has; nil for none
}

// Write implements io.Writer.
func (f *frameWriter) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		if len(f.frames) == len(f.draft.frames) {
			return written, errors.New("the archive is longer than its image says")
		}
		want := f.draft.frames[len(f.frames)]
		n := min(len(p), want-len(f.raw))
		f.raw = append(f.raw, p[:n]...)
		p, written = p[n:], written+n
		if len(f.raw) < want {
			continue
		}
		if err := f.flush(); err != nil {
			return written, err
		}
	}
	return written, nil
}

// flush compresses the frame at hand, and hands the block over that ends with it.
func (f *frameWriter) flush() (err error) {
	if f.block == nil {
		if f.block, err = f.to.Room(f.ctx); err != nil {
			return err
		}
		if f.draft.whole {
			f.block = append(f.block, make([]byte, f.size)...)
		}
	}
	before := len(f.block)
	f.block = f.draft.writer.encoder.EncodeAll(f.raw, f.block)
	packed := len(f.block) - before
	f.frames = append(f.frames, frame{size: packed, raw: len(f.raw)})
	f.raw, f.size = f.raw[:0], f.size+int64(packed)
	if len(f.frames) < f.draft.cuts[f.blocks] || f.draft.whole {
		return nil
	}
	f.blocks++
	return f.hand(f.blocks)
}

// hand hands the block at hand over as block i.
func (f *frameWriter) hand(i int) error {
	block := f.block
	f.block = nil
	return f.to.Block(i, block)
}

// finish hands the first block over.
func (f *frameWriter) finish() (err error) {
	if len(f.frames) < len(f.draft.frames) {
		return errors.New("the archive is shorter than its image says")
	}
	index := encodeIndex(f.frames)
	if f.draft.whole {
		copy(f.block, index)
		return f.hand(0)
	}
	if f.block, err = f.to.Room(f.ctx); err != nil {
		return err
	}
	f.block = append(f.block, index...)
	return f.hand(0)
}

// close gives back what is left where writing came to nothing.
func (f *frameWriter) close() {
	if f.block != nil {
		f.to.Free(f.block)
	}
}
