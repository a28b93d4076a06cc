package image

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image/unpack"
)

// contentReader hands a zstd blob on while another goroutine unpacks it and takes the digest of its content. Like
// verifier, which is beneath, it hands the last byte on once all is known to be right.
type contentReader struct {
	blob    io.ReadCloser
	layer   Layer
	packed  *io.PipeWriter
	content errgroup.Group
	got     digest.Digest
	err     error
}

// newContentReader reads blob, which is a layer's, verified but for its content.
func newContentReader(blob io.ReadCloser, l Layer) *contentReader {
	r, w := io.Pipe()
	c := &contentReader{blob: blob, layer: l, packed: w}
	c.content.Go(func() error {
		err := c.unpack(r)
		_ = r.CloseWithError(err) // whoever writes on hears of it
		return err
	})
	return c
}

// unpack takes the digest of what packed holds. A panic of the decoder must not end the process.
func (c *contentReader) unpack(packed io.Reader) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("unpacking panicked: %v", v)
		}
	}()
	decoder, err := unpack.Zstd(packed)
	if err != nil {
		return err
	}
	defer decoder.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(decoder, MaxLayer+1))
	switch {
	case err != nil:
		return err
	case n > MaxLayer:
		return fmt.Errorf("more than %d bytes", int64(MaxLayer))
	}
	c.got = digest.NewDigest(digest.SHA256, sum)
	return nil
}

// Read implements io.Reader. A content that is not the config's is ErrVerify.
func (c *contentReader) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.blob.Read(p)
	if wrong := c.follow(p[:n], err); wrong != nil {
		n, err = 0, wrong
	}
	c.err = err
	return n, err
}

// follow hands on to the unpacking what was read, with what came behind it, and says what is wrong with the content as far
// as that is known. What is wrong with the blob is for its reader to say.
func (c *contentReader) follow(read []byte, behind error) error {
	if behind != nil && behind != io.EOF {
		return nil
	}
	if len(read) > 0 {
		if _, err := c.packed.Write(read); err != nil {
			return c.spoilt(c.end())
		}
	}
	if behind == io.EOF {
		return c.verify()
	}
	return nil
}

// verify waits for the digest of the whole content.
func (c *contentReader) verify() error {
	if err := c.end(); err != nil {
		return c.spoilt(err)
	}
	if c.got != c.layer.DiffID {
		return fmt.Errorf("%w: the content of blob %s is %s, the config says %s", ErrVerify, short(c.layer.Descriptor.Digest), c.got, c.layer.DiffID)
	}
	return nil
}

// spoilt says that a blob with the right digest can't be unpacked: whoever made it is not to be trusted.
func (c *contentReader) spoilt(err error) error {
	return fmt.Errorf("%w: unpacking blob %s: %w", ErrVerify, short(c.layer.Descriptor.Digest), unpack.NoEOF(err))
}

// end ends the unpacking with what was read so far, and says how that went.
func (c *contentReader) end() error {
	_ = c.packed.Close()
	return c.content.Wait()
}

// Close implements io.Closer. Nothing is left running.
func (c *contentReader) Close() error {
	_ = c.packed.CloseWithError(errors.New("it was not read to its end"))
	_ = c.content.Wait() // whoever read it knows how that went
	return c.blob.Close()
}
