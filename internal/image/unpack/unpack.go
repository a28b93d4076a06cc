// Package unpack owns what a layer's blob is unpacked with: gzip, zstd or nothing. It verifies nothing, and does not know
// images.
package unpack

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the memory that a zstd frame may ask its reader for, in bytes. It is what RFC 8878, 3.1.1.1.2, wants
// every decoder to have.
const maxWindow = 8 << 20

// maxMagic is the length of the longest of the following.
const maxMagic = 6

// The first bytes of what a layer may be (RFC 1952, 2.3.1; RFC 8878, 3.1.1).
var (
	gzipMagic = []byte{0x1f, 0x8b, 8}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	// What daemons unpack besides: xz (The .xz File Format, 2.1.1.1), and bzip2.
	otherMagic = [][]byte{{0xfd, '7', 'z', 'X', 'Z', 0}, {'B', 'Z', 'h'}}
)

// ErrUnknown says that a blob is packed in a way that is unpacked by others only: xz or bzip2.
var ErrUnknown = errors.New("packed in xz or bzip2, which is not unpacked here")

// Zstd reads what the frames of packed hold, in the goroutine of whoever reads, who closes it.
func Zstd(packed io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
}

// Unpacker unpacks one blob after the other, for whoever does so often. The zero value is ready.
type Unpacker struct{ gzip gzip.Reader }

// Open gives the content of packed, by its first bytes: the media type of a layer is not always true, and daemons go by
// these. What is too short for any is its own content, and so is its error. What others unpack is ErrUnknown. close is to be
// called once.
func (u *Unpacker) Open(packed *bufio.Reader) (content io.Reader, close func(), err error) {
	first, _ := packed.Peek(maxMagic)
	switch {
	case bytes.HasPrefix(first, gzipMagic):
		if err := u.gzip.Reset(packed); err != nil {
			return nil, nil, err
		}
		return &u.gzip, func() {}, nil
	case bytes.HasPrefix(first, zstdMagic):
		decoder, err := Zstd(packed)
		if err != nil {
			return nil, nil, err
		}
		return decoder, decoder.Close, nil
	case slices.ContainsFunc(otherMagic, func(magic []byte) bool { return bytes.HasPrefix(first, magic) }):
		return nil, nil, ErrUnknown
	default:
		return packed, func() {}, nil
	}
}

// NoEOF makes an end that comes too early an error that does not look like a clean one.
func NoEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
