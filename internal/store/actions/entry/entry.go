// Package entry owns the form of an entry of the Actions cache: the tar, compressed with zstd, that actions/cache would
// write for the directory of one key of a directory store. What is written here is that, as a sequence of frames of
// which any can be read by itself; what is read here is that from anyone. It does not know where entries are kept or
// how their bytes travel.
package entry

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/pullonce/pullonce/internal/store"
)

const (
	// root is the directory store's path within the workspace, as the official steps name it.
	root = ".pullonce"
	// archiveName is the file of a directory store that is an entry.
	archiveName = "image.tar"

	// blockSize and trailerSize are tar's, in bytes.
	blockSize   = 512
	trailerSize = 2 * blockSize
	// maxMembers bounds what may stand in front of the archive in an entry that others wrote.
	maxMembers = 64
	// maxFront bounds, in bytes, where the archive starts in the outer tar: what few bytes unpack to may take long to pass.
	maxFront = 1 << 20
)

// Path is what actions/cache is told to keep for key: a directory within the workspace. A generation of a key is kept
// under the path of the key itself.
func Path(key string) string {
	base, _ := store.ParseGeneration(key)
	return path.Join(root, base)
}

func archivePath(key string) string { return path.Join(Path(key), archiveName) }

// members are the headers of the outer tar up to the first byte of the archive, which has size bytes.
func members(key string, size int64, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	at = at.Truncate(time.Second)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: Path(key) + "/", Mode: 0o755, ModTime: at},
		{Typeflag: tar.TypeReg, Name: archivePath(key), Size: size, Mode: 0o644, ModTime: at},
	} {
		if err := w.WriteHeader(&h); err != nil {
			return nil, fmt.Errorf("encoding the header of %s: %w", h.Name, err)
		}
	}
	return b.Bytes(), nil
}

// member finds the archive of key in the outer tar: where it starts and how many bytes it has. r stands at its first
// byte afterwards. An entry without it within maxFront is store.ErrCorrupt.
func member(r io.Reader, key string) (offset, size int64, err error) {
	counted := &counter{r: io.LimitReader(r, maxFront)}
	names := tar.NewReader(counted)
	for range maxMembers {
		h, err := names.Next()
		switch {
		case counted.err != nil:
			return 0, 0, counted.err
		case counted.n == maxFront && err != nil:
			return 0, 0, fmt.Errorf("%w: no %s in its first %d bytes", store.ErrCorrupt, archivePath(key), maxFront)
		case err == io.EOF:
			return 0, 0, fmt.Errorf("%w: it has no %s", store.ErrCorrupt, archivePath(key))
		case err != nil:
			return 0, 0, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
		}
		if h.Typeflag == tar.TypeReg && strings.TrimPrefix(path.Clean(h.Name), "/") == archivePath(key) {
			return counted.n, h.Size, nil
		}
	}
	return 0, 0, fmt.Errorf("%w: more than %d members in front of %s", store.ErrCorrupt, maxMembers, archivePath(key))
}

// counter counts what is read, and keeps the error that the reading ended with apart from what a parser makes of it.
type counter struct {
	r   io.Reader
	n   int64
	err error
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}
