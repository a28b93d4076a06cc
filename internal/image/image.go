// Package image owns the one value that flows through pullonce, its verification, and the archive it is kept in. It
// does not know where an image comes from or where it goes.
package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
)

// Limits on what a registry or a store may hand over. They are far above any image in use and far below what hurts.
const (
	// MaxDocument bounds root, manifest and config, each, in bytes. Registries hold manifests to 4 MiB as well
	// (distribution-spec, "Pushing Manifests").
	MaxDocument = 4 << 20
	// MaxLayers bounds the number of layers. Overlay file systems stop at 128 or below, Docker at 127.
	MaxLayers = 512
	// MaxLayer bounds one layer, in bytes.
	MaxLayer = 64 << 30
)

// Document is one of an image's JSON documents: the very bytes whose digest is trusted.
type Document struct {
	MediaType string
	Digest    digest.Digest
	Data      []byte
}

// Descriptor is the document's OCI descriptor.
func (d Document) Descriptor() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: int64(len(d.Data))}
}

// Layer is one layer of an image: the blob at hand, which is the registry's own but in a recompressed image, and the digest
// of what it unpacks to, which is "" in an artifact.
type Layer struct {
	Descriptor ocispec.Descriptor
	DiffID     digest.Digest

	recompressed bool // the manifest lists another blob of the same content
}

// Source gives the raw blobs of an image.
type Source interface {
	// Blob opens the blob that d describes, from its first byte; the caller closes it. It need not verify: Image does.
	// Safe for concurrent use. A blob that is not there is an error.
	Blob(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error)
}

// Parts are what an Image is made of. Root and Manifest are the same bytes where the reference has no index.
type Parts struct {
	Reference              reference.Reference
	Platform               platform.Platform
	Root, Manifest, Config []byte
	// Layers are the blobs that stand in for the manifest's layers, one each, by digest and size; nil is the manifest's own.
	// One that the manifest does not list is its content in zstd.
	Layers []ocispec.Descriptor
	Source Source
}

// Image is one image for one platform: the root, the manifest, the config and the layers, all the registry's own
// bytes, but for layers that were recompressed (see Recompressed). An Image that exists has been verified along
// reference → root → manifest → config; its layers are read when asked for and verified as they are read. Values are
// immutable and safe for concurrent use.
//
// It may hold an OCI artifact in place of an image: a chart, a policy. Of that nothing is known but its bytes: it has the
// platform that it was asked for, whatever that is, and its layers have no diff ids.
type Image struct {
	ref                    reference.Reference
	platform               platform.Platform
	root, manifest, config Document
	carrier                Document // the manifest that lists layers
	layers                 []Layer
	further                []Layer // of a prefix: those that it is without
	source                 Source
	observe                func(n int)
	unawaited              bool // see Unawaited
	form                   form
	head, tail             []byte // what the archive holds before the layers, and behind them
}

// ErrVerify is the cause of every refusal of bytes that are not what their digest, size or format says.
var ErrVerify = errors.New("verification")

// Reference is the pin that the image answers to.
func (img Image) Reference() reference.Reference { return img.ref }

// Platform is the image's platform, normalised.
func (img Image) Platform() platform.Platform { return img.platform }

// Root is the index that the reference resolves to, or the manifest where there is no index.
func (img Image) Root() Document { return img.root }

// Manifest is the image manifest of the platform.
func (img Image) Manifest() Document { return img.manifest }

// Config is the image config.
func (img Image) Config() Document { return img.config }

// Artifact says whether what img holds is no container image, by the media type of its config. None is as good as that
// of an image.
func (img Image) Artifact() bool {
	return img.config.MediaType != "" && !IsConfig(img.config.MediaType)
}

// Loadable refuses an artifact where an image is needed.
func (img Image) Loadable() error {
	if img.Artifact() {
		return fmt.Errorf("not a container image (config media type %q)", img.config.MediaType)
	}
	return nil
}

// Layers are the layers, the base first. The slice is the image's own and must not be changed.
func (img Image) Layers() []Layer { return img.layers }

// Size is the sum of all bytes of the image's documents and layers, each blob counted once per mention.
func (img Image) Size() int64 {
	size := int64(len(img.root.Data) + len(img.config.Data))
	if img.manifest.Digest != img.root.Digest {
		size += int64(len(img.manifest.Data))
	}
	for _, l := range img.layers {
		size += l.Descriptor.Size
	}
	return size
}

// Is refuses an image that answers to another reference or platform than the one wanted: what a store hands back is
// not believed to be what was asked for.
func (img Image) Is(ref reference.Reference, p platform.Platform) error {
	if img.ref != ref {
		return fmt.Errorf("%w: the entry holds %s, not %s", ErrVerify, img.ref.Familiar(), ref.Familiar())
	}
	if img.platform != platform.Normalize(p) {
		return fmt.Errorf("%w: the entry holds %s for %s, not %s", ErrVerify, ref.Familiar(), img.platform, p)
	}
	return nil
}

// Observe is img with f called for every run of layer bytes that is read, n of them; it may be called from several
// goroutines. An observer that img has already is called as well.
func (img Image) Observe(f func(n int)) Image {
	before := img.observe
	img.observe = f
	if before != nil {
		img.observe = func(n int) { before(n); f(n) }
	}
	return img
}

// Unawaited is img where it is not known when its layers will come, as from a registry that throttles: nobody who loads another
// image is to wait for it to bring layers that both have.
func (img Image) Unawaited() Image {
	img.unawaited = true
	return img
}

// Awaitable says whether others may wait for what img brings.
func (img Image) Awaitable() bool { return !img.unawaited }

// Layer opens layer i. What it returns is verified: its last byte is handed on only once digest and size, and of a
// recompressed layer its content, are known to be right, and any difference is ErrVerify. Reads end with ctx. Whatever
// goes wrong is ErrRead. The caller closes it.
func (img Image) Layer(ctx context.Context, i int) (io.ReadCloser, error) {
	rc, err := img.open(ctx, i)
	if err != nil {
		return nil, err
	}
	return img.verified(ctx, rc, i), nil
}

// open opens the blob of layer i, as its source gives it. A panic of the source is an error of it.
func (img Image) open(ctx context.Context, i int) (rc io.ReadCloser, err error) {
	d := img.layers[i].Descriptor
	defer func() {
		if v := recover(); v != nil {
			rc, err = nil, fmt.Errorf("%w: opening layer %s panicked: %v", ErrRead, short(d.Digest), v)
		}
	}()
	rc, err = img.source.Blob(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("%w: opening layer %s: %w", ErrRead, short(d.Digest), err)
	}
	return rc, nil
}

// verified is layer i, of which rc gives the bytes.
func (img Image) verified(ctx context.Context, rc io.ReadCloser, i int) io.ReadCloser {
	l := img.layers[i]
	blob := io.ReadCloser(newVerifier(ctx, rc, l.Descriptor, img.observe))
	if l.recompressed {
		blob = newContentReader(blob, l)
	}
	return sourceReader{blob}
}

// copyLayer copies layer i to w.
func (img Image) copyLayer(ctx context.Context, w io.Writer, i int, buf []byte) error {
	layer, err := img.Layer(ctx, i)
	if err != nil {
		return err
	}
	defer layer.Close()
	if _, err := io.CopyBuffer(struct{ io.Writer }{w}, layer, buf); err != nil {
		return fmt.Errorf("copying layer %s: %w", short(img.layers[i].Descriptor.Digest), err)
	}
	return nil
}

// short is the part of a digest that people compare.
func short(d digest.Digest) string {
	_, hex, _ := strings.Cut(d.String(), ":")
	return hex[:min(12, len(hex))]
}
