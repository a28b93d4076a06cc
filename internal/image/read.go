package image

import (
	"errors"
	"fmt"
	"io"
)

// ErrRead marks every failure to read an image's own layers, from wherever they come, as against a failure of whatever
// they go to: with the first another source helps, with the second it does not.
var ErrRead = errors.New("reading the image")

// sourceReader marks what goes wrong while a layer is read.
type sourceReader struct{ io.ReadCloser }

// Read implements io.Reader. A panic of the source is an error of it: whoever reads may be in a goroutine where nobody else
// catches it.
func (r sourceReader) Read(p []byte) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			n, err = 0, fmt.Errorf("%w: it panicked: %v", ErrRead, v)
		}
	}()
	n, err = r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", ErrRead, err)
	}
	return n, err
}
