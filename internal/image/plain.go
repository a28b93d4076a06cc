package image

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
)

// The first bytes of what a layer may be (RFC 1952, 2.3.1; RFC 8878, 3.1.1).
var (
	gzipMagic = []byte{0x1f, 0x8b, 8}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// HasContent says whether Content can unpack every layer: none is encrypted, foreign, or of an unknown type.
func (img Image) HasContent() bool {
	for _, l := range img.layers {
		_, kind, _ := strings.Cut(l.Descriptor.MediaType, ".tar")
		if l.DiffID == "" || !strings.Contains(l.Descriptor.MediaType, ".tar") || (kind != "" && kind != ".gzip" && kind != "+gzip" && kind != "+zstd" && kind != ".zstd") {
			return false
		}
	}
	return true
}

// Content opens what layer i unpacks to. As with Layer, its last byte is handed on only once all is known to be right: the
// blob by its digest, and the content by the config's diff id. Whatever goes wrong is ErrRead. The caller closes it.
func (img Image) Content(ctx context.Context, i int) (io.ReadCloser, error) {
	l := img.layers[i]
	rc, err := img.source.Blob(ctx, l.Descriptor)
	if err != nil {
		return nil, fmt.Errorf("%w: opening layer %s: %w", ErrRead, short(l.Descriptor.Digest), err)
	}
	p := &plainReader{blob: newVerifier(ctx, rc, l.Descriptor, img.observe), layer: l, sum: sha256.New()}
	return sourceReader{p}, nil
}

// plainReader unpacks a blob as it is read.
type plainReader struct {
	blob    *verifier
	layer   Layer
	content *bufio.Reader // nil before the first read
	free    func()
	sum     hash.Hash
	err     error
}

// Read implements io.Reader.
func (r *plainReader) Read(p []byte) (n int, err error) {
	if r.err != nil || len(p) == 0 {
		return 0, r.err
	}
	if r.content == nil {
		if err := r.open(); err != nil {
			r.err = r.spoilt(err)
			return 0, r.err
		}
	}
	n, r.err = r.next(p)
	return n, r.err
}

// next reads on, and hands the last byte on once nothing follows and all is right.
func (r *plainReader) next(p []byte) (int, error) {
	n, err := r.content.Read(p)
	r.sum.Write(p[:n])
	if err == nil {
		_, err = r.content.Peek(1)
	}
	switch {
	case err == nil:
		return n, nil
	case err != io.EOF:
		return 0, r.spoilt(err)
	}
	if err := r.verify(); err != nil {
		return 0, err
	}
	return n, io.EOF
}

// open finds out what the blob is, by its first bytes: media types are not always true, and daemons go by these as well.
func (r *plainReader) open() error {
	packed := bufio.NewReaderSize(r.blob, copyBuffer)
	first, err := packed.Peek(len(zstdMagic))
	if err != nil && err != io.EOF {
		return err
	}
	r.content, r.free = packed, func() {}
	switch {
	case bytes.HasPrefix(first, gzipMagic):
		unzipped, err := gzip.NewReader(packed)
		if err != nil {
			return err
		}
		r.content = bufio.NewReaderSize(unzipped, copyBuffer)
	case bytes.Equal(first, zstdMagic):
		decoder, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return err
		}
		r.content, r.free = bufio.NewReaderSize(decoder, copyBuffer), decoder.Close
	}
	return nil
}

// verify reads the blob to its end, which is behind that of its content, and takes the content's digest.
func (r *plainReader) verify() error {
	if _, err := io.Copy(io.Discard, struct{ io.Reader }{r.blob}); err != nil {
		return err
	}
	if got := digest.NewDigest(digest.SHA256, r.sum); got != r.layer.DiffID {
		return fmt.Errorf("%w: the content of blob %s is %s, the config says %s", ErrVerify, short(r.layer.Descriptor.Digest), got, r.layer.DiffID)
	}
	return nil
}

// spoilt tells a blob that can't be read from one that is read and can't be unpacked: the rest of it tells which.
func (r *plainReader) spoilt(err error) error {
	if _, unread := io.Copy(io.Discard, struct{ io.Reader }{r.blob}); unread != nil {
		return unread
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: unpacking blob %s: %w", ErrVerify, short(r.layer.Descriptor.Digest), err)
}

// Close implements io.Closer.
func (r *plainReader) Close() error {
	if r.free != nil {
		r.free()
	}
	return r.blob.Close()
}
