package entry

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/store"
)

// PrefixSize is how much of an entry Open wants to be given, in bytes. With few exceptions that is all it takes.
const PrefixSize = 256 << 10

// maxWindow bounds what a frame that others wrote may make the decompressor keep, in bytes. zstd itself takes 2 MiB at
// the level that actions/cache uses.
const maxWindow = 16 << 20

// Blob is where the bytes of an entry are. Safe for concurrent use.
type Blob interface {
	// Size is the number of bytes.
	Size() int64
	// Get reads the n bytes from off on into buf, where it has room, and has check look at them. What check refuses
	// was spoiled on the way or is spoiled where it lies, so Get may read it again before it gives up.
	Get(ctx context.Context, off int64, n int, buf []byte, check func([]byte) error) error
}

// Reader reads entries. Its memory is bounded, however many it reads at once. Safe for concurrent use.
type Reader struct {
	budget  *budget
	decoder *zstd.Decoder
	parking parking
}

// NewReader makes a Reader that has so many ranges under way at most, besides one for each open layer.
func NewReader(ahead int) (*Reader, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(chunk))
	if err != nil {
		return nil, fmt.Errorf("making the decompressor: %w", err)
	}
	return &Reader{budget: newBudget(ahead), decoder: decoder}, nil
}

// Open reads the head of the image in the entry of key, which begins with prefix: PrefixSize bytes, or all there are.
// Layers are read from b when they are asked for, until ctx ends. An entry that can't be used is store.ErrCorrupt; an
// error of b itself is not.
func (r *Reader) Open(ctx context.Context, b Blob, prefix []byte, key string) (image.Image, error) {
	archive, size, err := r.archive(ctx, b, prefix, key)
	if err != nil {
		return image.Image{}, err
	}
	img, err := image.Decode(ctx, archive, size)
	if errors.Is(err, image.ErrVerify) {
		return image.Image{}, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return img, err
}

// archive finds the archive in an entry, by the index of ours, or by reading what others wrote from its start.
func (r *Reader) archive(ctx context.Context, b Blob, prefix []byte, key string) (io.ReaderAt, int64, error) {
	if size, ok := hasIndex(prefix); ok {
		return r.openFramed(ctx, b, prefix, key, size)
	}
	return r.openStream(ctx, b, prefix, key)
}
