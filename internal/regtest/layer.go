package regtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/opencontainers/go-digest"
)

// Layer is one layer: a gzip-compressed tar.
type Layer struct {
	Digest, DiffID digest.Digest
	// Size is that of the blob, compressed, in bytes.
	Size int64
	body body
}

// RandomLayer is a layer with one file of size bytes that do not compress. The same seed and size give the same layer;
// it costs no memory, whatever its size.
func RandomLayer(seed uint64, size int64) Layer {
	var header bytes.Buffer
	h := &tar.Header{Name: fmt.Sprintf("data-%016x", seed), Mode: 0o644, Size: size}
	if err := tar.NewWriter(&header).WriteHeader(h); err != nil {
		panic(err) // a buffer takes everything
	}
	padding := make([]byte, (512-size%512)%512+1024) // to the block, and two blocks for the end
	raw := join(bodyOf(header.Bytes()), body{random(seed), size}, bodyOf(padding))
	crc, diffID := crc32.NewIEEE(), digest.Canonical.Digester()
	sum(raw, crc, diffID.Hash())
	return newLayer(diffID.Digest(), storeGzip(raw, crc.Sum32()))
}

// TarLayer is a layer with the content of a tar, compressed here.
func TarLayer(content []byte) Layer {
	var compressed bytes.Buffer
	zw := gzip.NewWriter(&compressed)
	if _, err := zw.Write(content); err != nil {
		panic(err) // a buffer takes everything
	}
	if err := zw.Close(); err != nil {
		panic(err)
	}
	return newLayer(digest.FromBytes(content), bodyOf(compressed.Bytes()))
}

// FileLayer is a layer with the given files by name, mode 0755, in order of name.
func FileLayer(files map[string]string) Layer {
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name]))}
		if err := tw.WriteHeader(h); err != nil {
			panic(err) // a buffer takes everything
		}
		if _, err := tw.Write([]byte(files[name])); err != nil {
			panic(err)
		}
	}
	if err := tw.Close(); err != nil {
		panic(err)
	}
	return TarLayer(buf.Bytes())
}

func newLayer(diffID digest.Digest, b body) Layer {
	d := digest.Canonical.Digester()
	sum(b, d.Hash())
	return Layer{Digest: d.Digest(), DiffID: diffID, Size: b.size, body: b}
}
