// Package imagetest makes images for tests: real manifests, configs and gzip'd layers, the same for the same options,
// kept in memory. It owns no assertions and knows no registry, store or target.
package imagetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
)

// Options choose an image. The zero value is docker.io/library/test:1 for linux/amd64 with one layer and no index.
type Options struct {
	// Reference is the image's tag or canonical name; "test:1" where it is empty.
	Reference string
	// Digest appends the root's digest to the reference.
	Digest bool
	// ByDigest makes the reference one by digest alone.
	ByDigest bool
	// Platform is linux/amd64 where it is zero.
	Platform platform.Platform
	// Index puts an index in front, with a child for another platform and an attestation.
	Index bool
	// Artifact makes it a chart in place of an image.
	Artifact bool
	// Layers is the number of layers, 1 where it is zero; -1 is none.
	Layers int
	// LayerSize is the size of each layer's one file in bytes; 1000 where it is zero.
	LayerSize int
	// Repeat appends the first layer once more.
	Repeat bool
	// Recompressed replaces the layers by their contents in zstd.
	Recompressed bool
	// Seed changes the content of the layers, and so every digest.
	Seed uint64
}

// Valid says whether an image can be made: the reference parses, there is a layer to repeat and a tag to add a digest to,
// no artifact is in an index, and what is recompressed has layers to be.
func (o Options) Valid() bool {
	o = o.withDefaults()
	ref, err := reference.Parse(o.Reference)
	return err == nil && ref.Digest() == "" && (o.Layers > 0 || !o.Repeat) && !(o.Artifact && (o.Index || o.Recompressed))
}

// New is an image with a Source in memory.
func New(t testing.TB, o Options) image.Image {
	t.Helper()
	img, err := image.New(Parts(t, o))
	require.NoError(t, err)
	return img
}

// Blobs is a Source in memory.
type Blobs map[digest.Digest][]byte

// Blob implements image.Source.
func (b Blobs) Blob(_ context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	data, ok := b[d.Digest]
	if !ok {
		return nil, fmt.Errorf("no blob %s", d.Digest)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// Source is an image.Source made of a function.
type Source func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error)

// Blob implements image.Source.
func (s Source) Blob(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	return s(ctx, d)
}

// Parts are what New makes an image of; the Source is of type Blobs.
func Parts(t testing.TB, o Options) image.Parts {
	t.Helper()
	o = o.withDefaults()
	blobs := Blobs{}
	var standIns []ocispec.Descriptor
	config := ocispec.Image{Platform: ocispec.Platform{
		OS: o.Platform.OS, Architecture: o.Platform.Architecture, Variant: o.Platform.Variant,
	}}
	config.Config.Cmd = []string{"/layer-0"}
	config.RootFS.Type = "layers"
	manifest := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Layers: []ocispec.Descriptor{},
	}
	for i := range o.Layers {
		content := layer(t, fmt.Sprintf("layer-%d", i), o.LayerSize, o.Seed+uint64(i))
		manifest.Layers = append(manifest.Layers, blobs.add(ocispec.MediaTypeImageLayerGzip, Gzip(t, content, gzip.NoCompression)))
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, digest.FromBytes(content))
		if o.Recompressed {
			standIns = append(standIns, blobs.add(ocispec.MediaTypeImageLayerZstd, Zstd(content)))
		}
	}
	if o.Repeat {
		manifest.Layers = append(manifest.Layers, manifest.Layers[0])
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, config.RootFS.DiffIDs[0])
		standIns = append(standIns, standIns[:min(1, len(standIns))]...)
	}
	p := image.Parts{Platform: o.Platform, Config: encode(t, config), Layers: standIns, Source: blobs}
	configType := ocispec.MediaTypeImageConfig
	if o.Artifact {
		configType, p.Config = "application/vnd.cncf.helm.config.v1+json", []byte(`{"name":"chart","version":"1.0.0"}`)
	}
	manifest.Config = blobs.add(configType, p.Config)
	p.Manifest = encode(t, manifest)
	p.Root = p.Manifest
	if o.Index {
		p.Root = index(t, o, p.Manifest)
	}
	p.Reference = o.reference(t, p.Root)
	return p
}

func (o Options) withDefaults() Options {
	if o.Reference == "" {
		o.Reference = "test:1"
	}
	if o.Platform.IsZero() {
		o.Platform = platform.Platform{OS: "linux", Architecture: "amd64"}
	}
	if o.LayerSize == 0 {
		o.LayerSize = 1000
	}
	switch o.Layers {
	case 0:
		o.Layers = 1
	case -1:
		o.Layers = 0
	}
	return o
}

func (o Options) reference(t testing.TB, root []byte) reference.Reference {
	ref, err := reference.Parse(o.Reference)
	require.NoError(t, err)
	switch {
	case o.ByDigest:
		return reference.MustParse(ref.WithDigest(digest.FromBytes(root)))
	case o.Digest:
		return reference.MustParse(ref.Tagged() + "@" + digest.FromBytes(root).String())
	}
	return ref
}

// index lists manifest beside an attestation and a child for another platform, neither of which exists.
func index(t testing.TB, o Options, manifest []byte) []byte {
	child := descriptor(ocispec.MediaTypeImageManifest, manifest)
	child.Platform = &ocispec.Platform{OS: o.Platform.OS, Architecture: o.Platform.Architecture, Variant: o.Platform.Variant}
	other := descriptor(ocispec.MediaTypeImageManifest, []byte("other"))
	other.Platform = &ocispec.Platform{OS: "linux", Architecture: "s390x"}
	attestation := descriptor(ocispec.MediaTypeImageManifest, []byte("attestation"))
	attestation.Platform = &ocispec.Platform{OS: "unknown", Architecture: "unknown"}
	attestation.Annotations = map[string]string{
		"vnd.docker.reference.digest": child.Digest.String(),
		"vnd.docker.reference.type":   "attestation-manifest",
	}
	return encode(t, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{other, child, attestation},
	})
}

// layer is a tar with one file of pseudo-random bytes.
func layer(t testing.TB, name string, size int, seed uint64) []byte {
	content := make([]byte, size)
	_, err := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)}).Read(content)
	require.NoError(t, err)
	var plain bytes.Buffer
	tw := tar.NewWriter(&plain)
	require.NoError(t, tw.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(size), Format: tar.FormatUSTAR}))
	_, err = tw.Write(content)
	require.NoError(t, err)
	require.NoError(t, tw.Close())
	return plain.Bytes()
}

// Gzip is content in gzip at a level of compress/gzip. At gzip.NoCompression it is the same bytes with every version of Go.
func Gzip(t testing.TB, content []byte, level int) []byte {
	t.Helper()
	var packed bytes.Buffer
	zw, err := gzip.NewWriterLevel(&packed, level)
	require.NoError(t, err)
	_, err = zw.Write(content)
	require.NoError(t, err)
	require.NoError(t, zw.Close())
	return packed.Bytes()
}

// Zstd is content as one zstd frame of raw blocks (RFC 8878, 3.1.1), the same bytes with every version of every library.
func Zstd(content []byte) []byte {
	const maxBlock, singleSegment, last = 128 << 10, 0xa0, 1 // the size of the content follows in 4 bytes
	packed := []byte{0x28, 0xb5, 0x2f, 0xfd, singleSegment}
	packed = binary.LittleEndian.AppendUint32(packed, uint32(len(content)))
	for {
		n := min(len(content), maxBlock)
		head := uint32(n) << 3
		if n == len(content) {
			head |= last
		}
		packed = append(packed, byte(head), byte(head>>8), byte(head>>16))
		packed = append(packed, content[:n]...)
		if content = content[n:]; len(content) == 0 {
			return packed
		}
	}
}

func (b Blobs) add(mediaType string, data []byte) ocispec.Descriptor {
	d := descriptor(mediaType, data)
	b[d.Digest] = data
	return d
}

func descriptor(mediaType string, data []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
}

func encode(t testing.TB, v any) []byte {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}
