//go:build linux

package e2e

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// busybox is the program that containers of the suite run: static, so that it needs nothing else in its image.
const busybox = "/bin/busybox"

// layerFile is a layer of a generated image, kept compressed in a file.
type layerFile struct {
	name           string
	mediaType      types.MediaType
	digest, diffID v1.Hash
	size           int64
}

var _ partial.CompressedLayer = layerFile{}

func (l layerFile) Digest() (v1.Hash, error)            { return l.digest, nil }
func (l layerFile) DiffID() (v1.Hash, error)            { return l.diffID, nil }
func (l layerFile) Size() (int64, error)                { return l.size, nil }
func (l layerFile) MediaType() (types.MediaType, error) { return l.mediaType, nil }
func (l layerFile) Compressed() (io.ReadCloser, error)  { return os.Open(l.name) }

// as is the same layer with another media type.
func (l layerFile) as(mediaType types.MediaType) (v1.Layer, error) {
	l.mediaType = mediaType
	return partial.CompressedToLayer(l)
}

// file is one regular file of a layer.
type file struct {
	name string
	mode int64
	size int64
	data io.Reader
}

// writeLayer makes the layer of files under the given name; the same files make the same layer.
func writeLayer(name string, files ...file) (l layerFile, err error) {
	f, err := os.Create(name)
	if err != nil {
		return layerFile{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	compressed, unpacked, count := sha256.New(), sha256.New(), &counter{}
	gz, err := gzip.NewWriterLevel(io.MultiWriter(f, compressed, count), gzip.BestSpeed)
	if err != nil {
		return layerFile{}, err
	}
	if err := writeTar(io.MultiWriter(gz, unpacked), files); err != nil {
		return layerFile{}, fmt.Errorf("writing layer %s: %w", name, err)
	}
	if err := gz.Close(); err != nil {
		return layerFile{}, err
	}
	return layerFile{name: name, digest: sum(compressed), diffID: sum(unpacked), size: count.n}, nil
}

func writeTar(w io.Writer, files []file) error {
	tw := tar.NewWriter(w)
	made := map[string]bool{".": true}
	for _, f := range files {
		if dir := filepath.Dir(f.name); !made[dir] {
			made[dir] = true
			if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: epoch}); err != nil {
				return err
			}
		}
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: f.size, ModTime: epoch}); err != nil {
			return err
		}
		if _, err := io.CopyN(tw, f.data, f.size); err != nil {
			return err
		}
	}
	return tw.Close()
}

// epoch is the time stamp of everything in generated images.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// counter counts the bytes written to it.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

func sum(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

// mixed is endless content that packs to about a third, as images do: of three blocks, one is noise and two are the
// kind of text that repeats itself. The same seed gives the same bytes.
type mixed struct {
	noise *rand.ChaCha8
	block []byte
	left  []byte
	turn  int
}

func newMixed(seed uint64) *mixed {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	return &mixed{noise: rand.NewChaCha8(key), block: make([]byte, 64<<10)}
}

// Read implements io.Reader and never fails.
func (m *mixed) Read(p []byte) (int, error) {
	if len(m.left) == 0 {
		m.left = m.block
		_, _ = m.noise.Read(m.block)
		if m.turn++; m.turn%3 != 0 {
			text := fmt.Appendf(nil, "/usr/lib/module-%x/share/object.%d.so\n", m.block[:2], m.turn)
			for n := 0; n < len(m.block); {
				n += copy(m.block[n:], text)
			}
		}
	}
	n := copy(p, m.left)
	m.left = m.left[n:]
	return n, nil
}
