package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Verify reads every layer of img to its end. A layer that is not what its digest says is ErrVerify; the documents
// were verified when img was made.
func Verify(ctx context.Context, img Image) error {
	buf := make([]byte, copyBuffer)
	layers := img.stored()
	img.announce(layers)
	for _, s := range layers {
		if err := img.copyLayer(ctx, io.Discard, s.layer, buf); err != nil {
			return err
		}
	}
	return nil
}

// verifier hands a blob on while it hashes it, and holds the last byte back until the whole is known to be right. So
// a consumer that has seen all bytes has seen verified bytes, and one that has not will see an error, never io.EOF.
type verifier struct {
	ctx     context.Context // ends the reads, as the io.Reader's caller can't
	rc      io.ReadCloser
	want    ocispec.Descriptor
	observe func(n int)
	sum     hash.Hash
	seen    int64
	err     error
}

func newVerifier(ctx context.Context, rc io.ReadCloser, want ocispec.Descriptor, observe func(int)) *verifier {
	return &verifier{ctx: ctx, rc: rc, want: want, observe: observe, sum: sha256.New()}
}

// Read implements io.Reader. A blob that is cut short, too long or wrong ends in ErrVerify.
func (v *verifier) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if v.err == nil {
		v.err = v.ctx.Err()
	}
	if v.err != nil {
		return 0, v.err
	}
	var n int
	if left := v.want.Size - v.seen; left > 1 {
		n, v.err = v.most(p[:min(int64(len(p)), left-1)])
	} else {
		n, v.err = v.last(p[:left])
	}
	if v.observe != nil && n > 0 {
		v.observe(n)
	}
	return n, v.err
}

// most hands on what comes before the last byte.
func (v *verifier) most(p []byte) (int, error) {
	n, err := v.rc.Read(p)
	v.sum.Write(p[:n])
	v.seen += int64(n)
	if errors.Is(err, io.EOF) {
		err = v.short()
	}
	return n, err
}

// last reads the last byte into p (none of an empty blob), and hands it on once nothing follows and the digest is right.
func (v *verifier) last(p []byte) (int, error) {
	var tail [2]byte
	n, err := readFull(v.rc, tail[:len(p)+1])
	switch {
	case err == nil:
		return 0, fmt.Errorf("%w: blob %s is longer than %d bytes", ErrVerify, short(v.want.Digest), v.want.Size)
	case !errors.Is(err, io.EOF):
		return 0, err
	case n < len(p):
		return 0, v.short()
	}
	copy(p, tail[:n])
	v.sum.Write(p)
	v.seen += int64(n)
	if got := digest.NewDigest(digest.SHA256, v.sum); got != v.want.Digest {
		return 0, fmt.Errorf("%w: blob is %s, %s was asked for", ErrVerify, got, v.want.Digest)
	}
	return n, io.EOF
}

// short is the error of a blob that ends too early. It is never io.EOF, which would be a clean end to the consumer.
func (v *verifier) short() error {
	return fmt.Errorf("%w: blob %s ends after %d of %d bytes: %w",
		ErrVerify, short(v.want.Digest), v.seen, v.want.Size, io.ErrUnexpectedEOF)
}

// readFull fills p. Unlike io.ReadFull it leaves the reader's error as it is: io.EOF says that the data ends, and
// io.ErrUnexpectedEOF that a connection broke, which is no fault of the data.
func readFull(r io.Reader, p []byte) (int, error) {
	n := 0
	for n < len(p) {
		m, err := r.Read(p[n:])
		n += m
		if err != nil && n < len(p) {
			return n, err
		}
	}
	return n, nil
}

// Close closes the blob beneath.
func (v *verifier) Close() error { return v.rc.Close() }
