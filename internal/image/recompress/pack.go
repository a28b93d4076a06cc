package recompress

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/unpack"
)

// How layers are compressed. All of it goes into their bytes, and so into what the same image gives.
//
// 300 MB of programs and libraries, 108.0 MB in gzip -6, took one core 4.0 s to unpack and compress to 106.4 MB so; with a
// window of 8 MB 4.6 s to 106.1 MB, at the next better level 5.4 s to 102.6 MB, at the next faster one 3.4 s to 114.2 MB.
const (
	level  = zstd.SpeedDefault // about zstd's level 3
	window = 2 << 20           // what whoever unpacks keeps in memory, in bytes
	// async lets the encoder work on a block while the next is unpacked. The bytes are the same as without.
	async = 2
)

const (
	copyBuffer = 128 << 10 // a block of zstd's, in bytes
	readBuffer = 64 << 10
)

// Docker's media types of layers, from its image manifest v2 schema 2 specification.
const (
	mediaTypeDockerLayer     = "application/vnd.docker.image.rootfs.diff.tar"
	mediaTypeDockerLayerGzip = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

// recompressible says whether a layer of the media type is compressed anew. What is zstd already stays as it is, and so
// does what nobody but its maker may hand out, and what is encrypted or of a type that is not known.
func recompressible(mediaType string) bool {
	switch mediaType {
	case ocispec.MediaTypeImageLayer, ocispec.MediaTypeImageLayerGzip, mediaTypeDockerLayer, mediaTypeDockerLayerGzip:
		return true
	default:
		return false
	}
}

// packer compresses one layer at a time. The zero value is ready.
type packer struct {
	encoder  *zstd.Encoder
	in       *bufio.Reader
	unpacker unpack.Unpacker
	buf      []byte
}

// pack writes the content of blob to w as one zstd frame. The content must have the digest want, and at most so many bytes.
//
// What goes wrong with reading blob or writing to w is told as it is; whatever else is image.ErrVerify, and then blob was
// read to its end and is the right one.
func (p *packer) pack(ctx context.Context, w io.Writer, blob io.Reader, want digest.Digest, most int64) (d ocispec.Descriptor, err error) {
	defer func() {
		if v := recover(); v != nil { // of a decoder, or what it was given
			*p = packer{}
			err = fmt.Errorf("unpacking panicked: %v", v)
		}
	}()
	if err := p.ready(); err != nil {
		return ocispec.Descriptor{}, err
	}
	from, to, content := &reading{r: blob}, &writing{w: w, sum: sha256.New()}, sha256.New()
	p.encoder.Reset(to)
	n, wrong := p.copy(ctx, io.MultiWriter(p.encoder, content), from, most+1)
	if wrong == nil {
		wrong = p.encoder.Close()
	}
	p.encoder.Reset(nil) // nothing is written after this
	if ctx.Err() != nil {
		return ocispec.Descriptor{}, context.Cause(ctx)
	}
	if to.err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("spooling a layer: %w", to.err)
	}
	_, _ = io.Copy(io.Discard, from) // how it ends says whether it is the right blob
	got := digest.NewDigest(digest.SHA256, content)
	switch {
	case from.err != io.EOF:
		return ocispec.Descriptor{}, from.err
	case wrong != nil:
		return ocispec.Descriptor{}, fmt.Errorf("%w: unpacking it: %w", image.ErrVerify, unpack.NoEOF(wrong))
	case n > most:
		return ocispec.Descriptor{}, fmt.Errorf("%w: it unpacks to more than %d bytes", image.ErrVerify, most)
	case got != want:
		return ocispec.Descriptor{}, fmt.Errorf("%w: its content is %s, the config says %s", image.ErrVerify, got, want)
	}
	return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerZstd, Digest: digest.NewDigest(digest.SHA256, to.sum), Size: to.size}, nil
}

// ready makes what the first layer needs and all further ones use again.
func (p *packer) ready() (err error) {
	if p.encoder != nil {
		return nil
	}
	p.in, p.buf = bufio.NewReaderSize(nil, readBuffer), make([]byte, copyBuffer)
	p.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderConcurrency(async), zstd.WithZeroFrames(true))
	return err
}

// copy writes the first most bytes of the content of blob to w.
func (p *packer) copy(ctx context.Context, w io.Writer, blob io.Reader, most int64) (int64, error) {
	p.in.Reset(blob)
	defer p.in.Reset(nil)
	content, done, err := p.unpacker.Open(p.in)
	if err != nil {
		return 0, err
	}
	defer done()
	return io.CopyBuffer(w, io.LimitReader(&patient{ctx, content}, most), p.buf)
}

// reading reads and remembers how that ended, which is then the end of every further read.
type reading struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (r *reading) Read(p []byte) (n int, err error) {
	if r.err == nil {
		n, r.err = r.r.Read(p)
	}
	return n, r.err
}

// writing writes, counts, takes the digest, and remembers what went wrong.
type writing struct {
	w    io.Writer
	sum  hash.Hash
	size int64
	err  error
}

// Write implements io.Writer.
func (w *writing) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.sum.Write(p[:n])
	w.size += int64(n)
	w.err = cmp.Or(w.err, err)
	return n, err
}

// patient ends reads with its context: of few bytes much content can come.
type patient struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (p *patient) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.r.Read(b)
}
