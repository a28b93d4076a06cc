// Package image owns the one value that flows through pullonce, its verification, and the archive it is kept in. It
// does not know where an image comes from or where it goes.
package image

import (
	"context"
	"encoding/json"
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

// Layer is one layer of an image: the blob as the registry keeps it, and the digest of what it unpacks to.
type Layer struct {
	Descriptor ocispec.Descriptor
	DiffID     digest.Digest
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
	Source                 Source
}

// Image is one image for one platform: the root, the manifest, the config and the layers, all the registry's own
// bytes. An Image that exists has been verified along reference → root → manifest → config; its layers are read when
// asked for and verified as they are read. Values are immutable and safe for concurrent use.
type Image struct {
	ref                    reference.Reference
	platform               platform.Platform
	root, manifest, config Document
	layers                 []Layer
	source                 Source
}

// ErrVerify is the cause of every refusal of bytes that are not what their digest, size or format says.
var ErrVerify = errors.New("verification")

// New verifies the chain and makes an Image. Any break in it is ErrVerify.
func New(p Parts) (Image, error) {
	img := Image{ref: p.Reference, platform: platform.Normalize(p.Platform), source: p.Source}
	if p.Reference.IsZero() || p.Source == nil {
		return Image{}, errors.New("image: a reference and a source are needed")
	}
	for _, stage := range []func(Parts) error{img.verifyRoot, img.verifyManifest, img.verifyConfig} {
		if err := stage(p); err != nil {
			return Image{}, fmt.Errorf("%w of %s: %w", ErrVerify, p.Reference.Familiar(), err)
		}
	}
	return img, nil
}

// verifyRoot holds the root to the digest of the reference, where it has one.
func (img *Image) verifyRoot(p Parts) error {
	root, err := newDocument("root", p.Root)
	if err != nil {
		return err
	}
	if want := p.Reference.Digest(); want != "" && root.Digest != want {
		return fmt.Errorf("root is %s, the reference says %s", root.Digest, want)
	}
	img.root = root
	return nil
}

// verifyManifest holds the manifest to the root: it is the root, or the root lists it for this platform.
func (img *Image) verifyManifest(p Parts) error {
	manifest, err := newDocument("manifest", p.Manifest)
	if err != nil {
		return err
	}
	if !IsManifest(manifest.MediaType) {
		return fmt.Errorf("manifest has media type %q, which is no image manifest", manifest.MediaType)
	}
	img.manifest = manifest
	if manifest.Digest == img.root.Digest {
		return nil
	}
	if !IsIndex(img.root.MediaType) {
		return fmt.Errorf("root %s is no index and not the manifest %s", img.root.Digest, manifest.Digest)
	}
	var index ocispec.Index
	if err := json.Unmarshal(img.root.Data, &index); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	for _, d := range index.Manifests {
		if d.Digest == manifest.Digest && d.Size == int64(len(manifest.Data)) {
			return nil
		}
	}
	return fmt.Errorf("root %s does not list manifest %s", img.root.Digest, manifest.Digest)
}

// verifyConfig holds the config to the manifest, the platform to the config, and takes the layers from both.
func (img *Image) verifyConfig(p Parts) error {
	var manifest ocispec.Manifest
	if err := json.Unmarshal(img.manifest.Data, &manifest); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	img.config = Document{MediaType: manifest.Config.MediaType, Digest: digest.FromBytes(p.Config), Data: p.Config}
	if want := manifest.Config; img.config.Digest != want.Digest || int64(len(p.Config)) != want.Size {
		return fmt.Errorf("config is %s (%d bytes), the manifest says %s (%d bytes)", img.config.Digest, len(p.Config), want.Digest, want.Size)
	}
	var config ocispec.Image
	if err := json.Unmarshal(p.Config, &config); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	have := platform.Normalize(platform.Platform{OS: config.OS, Architecture: config.Architecture, Variant: config.Variant})
	if have.OS != img.platform.OS || have.Architecture != img.platform.Architecture {
		return fmt.Errorf("config is for %s, %s was asked for", have, img.platform)
	}
	return img.takeLayers(manifest.Layers, config.RootFS.DiffIDs)
}

func (img *Image) takeLayers(descriptors []ocispec.Descriptor, diffIDs []digest.Digest) error {
	if len(descriptors) != len(diffIDs) {
		return fmt.Errorf("manifest has %d layers, config has %d diff ids", len(descriptors), len(diffIDs))
	}
	if len(descriptors) > MaxLayers {
		return fmt.Errorf("%d layers, at most %d are allowed", len(descriptors), MaxLayers)
	}
	img.layers = make([]Layer, len(descriptors))
	for i, d := range descriptors {
		if err := checkLayer(d, diffIDs[i]); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
		img.layers[i] = Layer{Descriptor: d, DiffID: diffIDs[i]}
	}
	return nil
}

func checkLayer(d ocispec.Descriptor, diffID digest.Digest) error {
	if d.Size < 0 || d.Size > MaxLayer {
		return fmt.Errorf("size %d is out of bounds", d.Size)
	}
	for _, sum := range []digest.Digest{d.Digest, diffID} {
		if err := sum.Validate(); err != nil {
			return fmt.Errorf("digest %q: %w", sum, err)
		}
		if sum.Algorithm() != digest.SHA256 {
			return fmt.Errorf("digest %q: only sha256 is supported", sum)
		}
	}
	return nil
}

// newDocument bounds data, reads its media type and takes its digest.
func newDocument(what string, data []byte) (Document, error) {
	if len(data) > MaxDocument {
		return Document{}, fmt.Errorf("%s has %d bytes, at most %d are allowed", what, len(data), MaxDocument)
	}
	mediaType, err := MediaType(data)
	if err != nil {
		return Document{}, fmt.Errorf("%s: %w", what, err)
	}
	return Document{MediaType: mediaType, Digest: digest.FromBytes(data), Data: data}, nil
}

// MediaType reads the media type of a manifest or index from its own body. The OCI image-spec leaves the field
// optional, so a document without it is told by its shape.
func MediaType(data []byte) (string, error) {
	var doc struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     string          `json:"mediaType"`
		Manifests     json.RawMessage `json:"manifests"`
		Config        json.RawMessage `json:"config"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return "", fmt.Errorf("no JSON document: %w", err)
	}
	switch {
	case doc.SchemaVersion != 2:
		return "", fmt.Errorf("unsupported manifest: schema version %d", doc.SchemaVersion)
	case (doc.Manifests == nil) == (doc.Config == nil):
		return "", errors.New("unsupported manifest: neither an image manifest nor an index")
	case doc.MediaType != "":
		if IsIndex(doc.MediaType) != (doc.Manifests != nil) {
			return "", fmt.Errorf("media type %q does not match the document", doc.MediaType)
		}
		return doc.MediaType, nil
	case doc.Manifests != nil:
		return ocispec.MediaTypeImageIndex, nil
	default:
		return ocispec.MediaTypeImageManifest, nil
	}
}

// Docker's media types, from its image manifest v2 schema 2 specification.
const (
	mediaTypeDockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
	mediaTypeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
)

// IsIndex says whether mediaType is an OCI index or a Docker manifest list.
func IsIndex(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageIndex || mediaType == mediaTypeDockerList
}

// IsManifest says whether mediaType is an OCI or Docker image manifest.
func IsManifest(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageManifest || mediaType == mediaTypeDockerManifest
}

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

// Layer opens layer i. What it returns is verified: its last byte is handed on only once digest and size are known to
// be right, and any difference is ErrVerify. Whatever goes wrong is ErrRead. The caller closes it.
func (img Image) Layer(ctx context.Context, i int) (io.ReadCloser, error) {
	d := img.layers[i].Descriptor
	rc, err := img.source.Blob(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("%w: opening layer %s: %w", ErrRead, short(d.Digest), err)
	}
	return sourceReader{newVerifier(rc, d)}, nil
}

// short is the part of a digest that people compare.
func short(d digest.Digest) string {
	_, hex, _ := strings.Cut(d.String(), ":")
	return hex[:min(12, len(hex))]
}
