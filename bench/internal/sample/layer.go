package sample

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Busybox is the program of every image, in its lowest layer.
const Busybox = "/bin/busybox"

// sums is the folder of an image where each layer has a file with checksums of some of its files.
const sums = "bench/sums"

// inSums is how many files of a layer have one.
const inSums = 8

// written is a layer in a file, gzipped as registries have it.
type written struct {
	path           string
	digest, diffID v1.Hash
	size           int64
}

var _ v1.Layer = (*written)(nil)

// Digest implements v1.Layer.
func (w *written) Digest() (v1.Hash, error) { return w.digest, nil }

// DiffID implements v1.Layer.
func (w *written) DiffID() (v1.Hash, error) { return w.diffID, nil }

// Size implements v1.Layer.
func (w *written) Size() (int64, error) { return w.size, nil }

// MediaType implements v1.Layer.
func (w *written) MediaType() (types.MediaType, error) { return types.OCILayer, nil }

// Compressed implements v1.Layer.
func (w *written) Compressed() (io.ReadCloser, error) { return os.Open(w.path) }

// Uncompressed implements v1.Layer.
func (w *written) Uncompressed() (io.ReadCloser, error) {
	return nil, fmt.Errorf("reading %s uncompressed: nothing needs it", w.path)
}

// writeLayer makes the layer of files of the machine, in a file of dir. The lowest one of an image holds its program.
func writeLayer(machine fs.FS, files []file, l layer, lowest bool, dir string) (*written, error) {
	name := fmt.Sprintf("%016x", l.seed)
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	digest, diffID, size := sha256.New(), sha256.New(), &counter{}
	zipped := gzip.NewWriter(io.MultiWriter(f, digest, size))
	t := tarball{machine: machine, w: tar.NewWriter(io.MultiWriter(zipped, diffID)), made: map[string]bool{}}
	if err := t.layer(files, name, lowest); err != nil {
		return nil, fmt.Errorf("writing a layer: %w", err)
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return &written{path: f.Name(), digest: sum(digest), diffID: sum(diffID), size: size.n}, f.Close()
}

func sum(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

// counter counts what is written to it.
type counter struct{ n int64 }

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// tarball is a layer being written.
type tarball struct {
	machine fs.FS
	w       *tar.Writer
	made    map[string]bool // folders
	sums    strings.Builder
}

// layer writes files below a folder of the layer's own: what a layer above has does not hide them.
func (t *tarball) layer(files []file, name string, lowest bool) error {
	if lowest {
		if err := t.program(); err != nil {
			return err
		}
	}
	every := max(1, len(files)/inSums)
	for i, f := range files {
		if err := t.file(path.Join("opt", name, f.path), f, i%every == 0); err != nil {
			return err
		}
	}
	checks := t.sums.String()
	if err := t.header(path.Join(sums, name), int64(len(checks)), 0o644); err != nil {
		return err
	}
	if _, err := io.WriteString(t.w, checks); err != nil {
		return err
	}
	return t.w.Close()
}

// program writes busybox.
func (t *tarball) program() error {
	at := strings.TrimPrefix(Busybox, "/")
	info, err := fs.Stat(t.machine, at)
	if err != nil {
		return fmt.Errorf("finding the images' program, of Debian's busybox-static: %w", err)
	}
	return t.file(at, file{path: at, size: info.Size(), mode: 0o755}, true)
}

// file writes a file of the machine, and its checksum where it is to be checked.
func (t *tarball) file(name string, f file, check bool) error {
	from, err := t.machine.Open(f.path)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := t.header(name, f.size, f.mode); err != nil {
		return err
	}
	content := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(t.w, content), from, f.size); err != nil {
		return fmt.Errorf("copying %s: %w", f.path, err)
	}
	if check {
		fmt.Fprintf(&t.sums, "%x  /%s\n", content.Sum(nil), name)
	}
	return nil
}

// header begins a file, behind the folders that it is in.
func (t *tarball) header(name string, size int64, mode fs.FileMode) error {
	for i, c := range name {
		if c != '/' || t.made[name[:i]] {
			continue
		}
		t.made[name[:i]] = true
		if err := t.w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name[:i+1], Mode: 0o755, ModTime: stamp()}); err != nil {
			return err
		}
	}
	return t.w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: int64(mode | 0o400), ModTime: stamp()})
}

// stamp is the time of all files, so that the same files are the same layer.
func stamp() time.Time { return time.Unix(1_700_000_000, 0) }
