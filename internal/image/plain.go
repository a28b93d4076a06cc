package image

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/image/unpack"
)

// ErrPacked says that a layer's content can't be had here, and its blob is right.
var ErrPacked = errors.New("a layer whose content can't be had")

// HasContent says whether Content can unpack every layer: none is encrypted or of an unknown type.
func (img Image) HasContent() bool {
	return !slices.ContainsFunc(img.layers, func(l Layer) bool { return l.DiffID == "" || !unpacks(l.Descriptor.MediaType) })
}

// unpacks says whether the media type is that of a tar, as it is or packed in what can be unpacked.
func unpacks(mediaType string) bool {
	_, packing, isTar := strings.Cut(mediaType, ".tar")
	return isTar && slices.Contains([]string{"", ".gzip", "+gzip", ".zstd", "+zstd"}, packing)
}

// Contents is a manifest that lists what the layers unpack to in place of their blobs, for a daemon that keeps nothing else
// of them. How much that is nobody knows before it is unpacked: the sizes are 0.
func (img Image) Contents() (Document, error) {
	return img.listing(func(l Layer) ocispec.Descriptor {
		return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: l.DiffID}
	})
}

// Content opens what layer i unpacks to. As with Layer, its last byte is handed on only once all is known to be right: the
// blob by its digest, and the content by the config's diff id. Whatever goes wrong is ErrRead, and ErrPacked as well where
// the blob is in xz or bzip2, whatever its media type says. The caller closes it.
func (img Image) Content(ctx context.Context, i int) (io.ReadCloser, error) {
	rc, err := img.open(ctx, i)
	if err != nil {
		return nil, err
	}
	l := img.layers[i]
	return sourceReader{&plainReader{blob: newVerifier(ctx, rc, l.Descriptor, img.observe), layer: l, sum: sha256.New()}}, nil
}

// plainReader unpacks a blob as it is read.
type plainReader struct {
	blob     *verifier
	layer    Layer
	unpacker unpack.Unpacker
	content  *bufio.Reader // nil before the first read
	free     func()
	sum      hash.Hash
	err      error
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

// open begins to unpack.
func (r *plainReader) open() error {
	content, free, err := r.unpacker.Open(bufio.NewReaderSize(r.blob, copyBuffer))
	if err != nil {
		return err
	}
	r.content, r.free = bufio.NewReaderSize(content, copyBuffer), free
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
	if errors.Is(err, unpack.ErrUnknown) {
		return fmt.Errorf("%w: blob %s is %w", ErrPacked, short(r.layer.Descriptor.Digest), err)
	}
	return fmt.Errorf("%w: unpacking blob %s: %w", ErrVerify, short(r.layer.Descriptor.Digest), unpack.NoEOF(err))
}

// Close implements io.Closer.
func (r *plainReader) Close() error {
	if r.free != nil {
		r.free()
	}
	return r.blob.Close()
}
