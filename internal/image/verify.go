package image

import (
	"errors"
	"fmt"
	"hash"
	"io"

	"crypto/sha256"
	"encoding/hex"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// verifier hands a blob on while it hashes it, and holds the last byte back until the whole is known to be right. So
// a consumer that has seen all bytes has seen verified bytes, and one that has not will see an error, never io.EOF.
type verifier struct {
	rc   io.ReadCloser
	want ocispec.Descriptor
	sum  hash.Hash
	seen int64
	err  error
}

func newVerifier(rc io.ReadCloser, want ocispec.Descriptor) *verifier {
	return &verifier{rc: rc, want: want, sum: sha256.New()}
}

// Read implements io.Reader. A blob that is cut short, too long or wrong ends in ErrVerify.
func (v *verifier) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if v.err != nil {
		return 0, v.err
	}
	left := v.want.Size - v.seen
	if left <= 1 {
		return v.finish(p)
	}
	n, err := v.rc.Read(p[:min(int64(len(p)), left-1)])
	v.sum.Write(p[:n])
	v.seen += int64(n)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: blob %s ends after %d of %d bytes", ErrVerify, short(v.want.Digest), v.seen, v.want.Size)
	}
	v.err = err
	return n, err
}

// finish reads what is left, at most one byte, and whatever must not follow, before it hands the last byte on.
func (v *verifier) finish(p []byte) (int, error) {
	left := int(v.want.Size - v.seen)
	tail := make([]byte, left+1)
	n, err := io.ReadFull(v.rc, tail)
	if err == nil {
		v.err = fmt.Errorf("%w: blob %s is longer than %d bytes", ErrVerify, short(v.want.Digest), v.want.Size)
		return 0, v.err
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		v.err = err
		return 0, v.err
	}
	if n < left {
		v.err = fmt.Errorf("%w: blob %s ends after %d of %d bytes", ErrVerify, short(v.want.Digest), v.seen, v.want.Size)
		return 0, v.err
	}
	v.sum.Write(tail[:n])
	v.seen += int64(n)
	if got := digest.NewDigestFromHex("sha256", hex.EncodeToString(v.sum.Sum(nil))); got != v.want.Digest {
		v.err = fmt.Errorf("%w: blob is %s, %s was asked for", ErrVerify, got, v.want.Digest)
		return 0, v.err
	}
	v.err = io.EOF
	if n == 0 {
		return 0, io.EOF
	}
	p[0] = tail[0]
	return 1, nil
}

// Close closes the blob beneath.
func (v *verifier) Close() error { return v.rc.Close() }
