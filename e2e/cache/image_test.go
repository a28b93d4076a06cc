package cache

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"math/rand/v2"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
)

// generated is a Source of layers that do not compress and are never in memory as a whole.
type generated map[digest.Digest]layer

// kept is generated for those who ask whether it is at hand.
type kept struct{ generated }

// Keep implements image.Keeper.
func (kept) Keep(context.Context, []ocispec.Descriptor) error { return nil }

type layer struct {
	seed byte
	size int64
}

// Blob implements image.Source.
func (g generated) Blob(_ context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	return io.NopCloser(g[d.Digest].open()), nil
}

func (l layer) open() io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{l.seed}), l.size)
}

// newImage is an image with layers of these sizes.
func newImage(sizes ...int64) (image.Image, error) { return newImageOf(0, sizes...) }

// newImageOf is newImage with other layers for each seed.
func newImageOf(seed byte, sizes ...int64) (image.Image, error) {
	blobs := generated{}
	config := ocispec.Image{Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"}}
	config.RootFS.Type = "layers"
	manifest := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	for i, size := range sizes {
		l := layer{seed + byte(i), size}
		sum := sha256.New()
		if _, err := io.Copy(sum, l.open()); err != nil {
			return image.Image{}, err
		}
		d := digest.NewDigest(digest.SHA256, sum)
		blobs[d] = l
		manifest.Layers = append(manifest.Layers, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: d, Size: size})
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, d)
	}
	configData, err := json.Marshal(config)
	if err != nil {
		return image.Image{}, err
	}
	manifest.Config = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromBytes(configData), Size: int64(len(configData))}
	manifestData, err := json.Marshal(manifest)
	if err != nil {
		return image.Image{}, err
	}
	return image.New(image.Parts{
		Reference: reference.MustParse("test:1"), Platform: platform.Platform{OS: "linux", Architecture: "amd64"},
		Root: manifestData, Manifest: manifestData, Config: configData, Source: blobs,
	})
}

// sumOf is the digest of img's archive.
func sumOf(ctx context.Context, img image.Image) (digest.Digest, error) {
	sum := sha256.New()
	err := image.Encode(ctx, sum, img)
	return digest.NewDigest(digest.SHA256, sum), err
}
