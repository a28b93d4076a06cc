package oci

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/store"
)

// The annotations of an entry's manifest: what there is to know in JSON, and the image's documents, each compressed by
// gzip, in base64.
const (
	entryAnnotation    = "io.github.pullonce.entry"
	rootAnnotation     = "io.github.pullonce.root" // none where the manifest is the root
	manifestAnnotation = "io.github.pullonce.manifest"
	configAnnotation   = "io.github.pullonce.config" // none where it is too large: then it is read from its blob
)

// The versions of these annotations.
const (
	formatExact        = 1 // the entry's layers are those of the image's manifest
	formatRecompressed = 2 // they stand in for them
)

// maxConfig is the size of a packed config that is kept in the manifest, in bytes. As a rule it has a few thousand.
const maxConfig = 512 << 10

// errForeign says that a tag is somebody else's.
var errForeign = errors.New("what is under the tag was not saved by pullonce")

// record is what is to be known of an entry. The key makes the manifests of two keys differ, so that deleting the one by
// its digest leaves the other.
type record struct {
	FormatVersion int                 `json:"formatVersion"`
	Key           string              `json:"key"`
	Generation    int                 `json:"generation"`
	Reference     reference.Reference `json:"reference"`
	Platform      platform.Platform   `json:"platform"`
	Saved         time.Time           `json:"saved"`
}

// envelope is an entry as it lies in the registry: the bytes of its manifest, and what they say.
type envelope struct {
	record
	data     []byte
	manifest ocispec.Manifest
}

// seal makes the manifest of an entry.
func seal(r record, img image.Image) (envelope, error) {
	r.FormatVersion, r.Reference, r.Platform = formatExact, img.Reference(), img.Platform()
	if img.Recompressed() {
		r.FormatVersion = formatRecompressed
	}
	var original ocispec.Manifest
	if err := json.Unmarshal(img.Manifest().Data, &original); err != nil {
		return envelope{}, fmt.Errorf("reading the manifest: %w", err)
	}
	known, err := json.Marshal(r)
	if err != nil {
		return envelope{}, fmt.Errorf("writing the entry: %w", err)
	}
	e := envelope{record: r, manifest: ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: plain(original.Config), Layers: make([]ocispec.Descriptor, len(img.Layers())),
		Annotations: map[string]string{entryAnnotation: string(known), manifestAnnotation: pack(img.Manifest().Data)},
	}}
	for i, l := range img.Layers() {
		e.manifest.Layers[i] = plain(l.Descriptor)
	}
	if img.Root().Digest != img.Manifest().Digest {
		e.manifest.Annotations[rootAnnotation] = pack(img.Root().Data)
	}
	if config := pack(img.Config().Data); len(config) <= maxConfig {
		e.manifest.Annotations[configAnnotation] = config
	}
	if e.data, err = json.Marshal(e.manifest); err != nil {
		return envelope{}, fmt.Errorf("writing the entry: %w", err)
	}
	if len(e.data) > image.MaxDocument {
		return envelope{}, fmt.Errorf("the entry would have %d bytes, registries take at most %d", len(e.data), image.MaxDocument)
	}
	return e, nil
}

// plain is a descriptor of the same blob with its type in OCI's words, which every registry knows, and nothing else.
func plain(d ocispec.Descriptor) ocispec.Descriptor {
	names := map[string]string{
		"application/vnd.docker.container.image.v1+json":               ocispec.MediaTypeImageConfig,
		"application/vnd.docker.image.rootfs.diff.tar":                 ocispec.MediaTypeImageLayer,
		"application/vnd.docker.image.rootfs.diff.tar.gzip":            ocispec.MediaTypeImageLayerGzip,
		"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip":    ocispec.MediaTypeImageLayerGzip,
		"application/vnd.oci.image.layer.nondistributable.v1.tar":      ocispec.MediaTypeImageLayer,
		"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip": ocispec.MediaTypeImageLayerGzip,
		"application/vnd.oci.image.layer.nondistributable.v1.tar+zstd": ocispec.MediaTypeImageLayerZstd,
		"application/vnd.docker.image.rootfs.diff.tar.zstd":            ocispec.MediaTypeImageLayerZstd,
	}
	mediaType, ok := names[d.MediaType]
	if !ok {
		mediaType = d.MediaType
	}
	return ocispec.Descriptor{MediaType: mediaType, Digest: d.Digest, Size: d.Size}
}

// unseal reads the manifest of key's entry. Anything else is store.ErrCorrupt.
func unseal(key string, data []byte) (envelope, error) {
	e := envelope{data: data}
	if err := json.Unmarshal(data, &e.manifest); err != nil {
		return envelope{}, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	known, ok := e.manifest.Annotations[entryAnnotation]
	if !ok {
		return envelope{}, fmt.Errorf("%w: %w", store.ErrCorrupt, errForeign)
	}
	err := json.Unmarshal([]byte(known), &e.record)
	switch {
	case err != nil:
		return envelope{}, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	case e.FormatVersion != formatExact && e.FormatVersion != formatRecompressed:
		return envelope{}, fmt.Errorf("%w: it has format version %d, %d and %d are known", store.ErrCorrupt, e.FormatVersion, formatExact, formatRecompressed)
	case e.Key != key:
		return envelope{}, fmt.Errorf("%w: it is the entry of %q", store.ErrCorrupt, e.Key)
	}
	return e, nil
}

// entry is what a store tells of it.
func (e envelope) entry() store.Entry {
	size := int64(len(e.data)) + e.manifest.Config.Size
	for _, d := range e.manifest.Layers {
		size += d.Size
	}
	return store.Entry{Key: e.Key, Generation: e.Generation, Size: size, Saved: e.Saved}
}

// digest is that of the entry's own manifest.
func (e envelope) digest() digest.Digest { return digest.FromBytes(e.data) }

// imageDigest is that of the image's own manifest as it is in the repository, or "" where it can't be unpacked, or is not
// there: of a recompressed image the repository does not have the layers.
func (e envelope) imageDigest() digest.Digest {
	if e.FormatVersion == formatRecompressed {
		return ""
	}
	data, err := e.unpack(manifestAnnotation)
	if err != nil || data == nil {
		return ""
	}
	return digest.FromBytes(data)
}

// parts unpacks the documents. A config that is not among them is left out.
func (e envelope) parts() (image.Parts, error) {
	p := image.Parts{Reference: e.Reference, Platform: e.Platform}
	var errs [3]error
	p.Manifest, errs[0] = e.unpack(manifestAnnotation)
	p.Root, errs[1] = e.unpack(rootAnnotation)
	p.Config, errs[2] = e.unpack(configAnnotation)
	if err := errors.Join(errs[:]...); err != nil {
		return image.Parts{}, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	if p.Root == nil {
		p.Root = p.Manifest
	}
	if e.FormatVersion == formatRecompressed {
		p.Layers = e.manifest.Layers
	}
	return p, nil
}

// unpack is the document in an annotation, or nil where there is none.
func (e envelope) unpack(annotation string) ([]byte, error) {
	packed, ok := e.manifest.Annotations[annotation]
	if !ok {
		return nil, nil
	}
	unzipped, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader([]byte(packed))))
	if err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", annotation, err)
	}
	data, err := io.ReadAll(io.LimitReader(unzipped, image.MaxDocument+1)) // more than it may have is for image.New to refuse
	if err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", annotation, err)
	}
	return data, nil
}

func pack(data []byte) string {
	var b bytes.Buffer
	encoder := base64.NewEncoder(base64.StdEncoding, &b)
	zipper, _ := gzip.NewWriterLevel(encoder, gzip.BestCompression) // that level is a valid one
	_, _ = zipper.Write(data)                                       // a Buffer takes all
	_ = zipper.Close()
	_ = encoder.Close()
	return b.String()
}
