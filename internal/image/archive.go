package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"path"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
)

// The versions of the archive that this package reads and writes.
const (
	FormatExact        = 1 // the layers are the registry's own blobs
	FormatRecompressed = 2 // layers were compressed anew, with zstd
)

// The archive is one tar: an OCI image layout with pullonce's metadata in front and Docker's manifest.json beside it.
// Its head is what comes before the layers; it holds nothing that doesn't follow from the image, so reading compares
// it with what writing makes.
const (
	blockSize   = 512           // of tar: headers, and the multiple that members are padded to (POSIX.1-1988 ustar)
	trailerSize = 2 * blockSize // zeros at the end of every tar
	ustarMax    = 8 << 30       // sizes from here on don't fit the eleven octal digits of a ustar header
	memberMode  = 0o644

	metadataName = "pullonce.json"
	dockerName   = "manifest.json" // Docker image specification v1.2, "Combined Image JSON + Filesystem Changeset Format"

	annotationContainerdName = "io.containerd.image.name" // containerd's images.AnnotationImageName
)

// metadata is the archive's first member: what an image is, as far as its documents don't say it themselves, and the
// sizes of everything that follows.
type metadata struct {
	FormatVersion int                 `json:"formatVersion"`
	Reference     reference.Reference `json:"reference"`
	Platform      platform.Platform   `json:"platform"`
	Carrier       *blob               `json:"carrier,omitempty"` // the manifest that lists recompressed layers
	Root          blob                `json:"root"`
	Manifest      blob                `json:"manifest"`
	Config        blob                `json:"config"`
	Layers        []blob              `json:"layers"`
}

type blob struct {
	Digest digest.Digest `json:"digest"`
	Size   int64         `json:"size"`
}

func (d Document) blob() blob { return blob{d.Digest, int64(len(d.Data))} }

// dockerImage is one element of Docker's manifest.json.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// makeHead is the last stage of New: it writes the archive's head, and what of it the form has behind the layers.
func (img *Image) makeHead(Parts) error {
	var head, tail bytes.Buffer
	lists := &head
	if img.form.indexLast {
		lists = &tail
	}
	for _, own := range []struct {
		name string
		doc  any
		to   *bytes.Buffer
	}{
		{metadataName, img.metadata(), &head},
		{ocispec.ImageLayoutFile, ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}, &head},
		{ocispec.ImageIndexFile, img.index(), lists},
		{dockerName, img.dockerImages(), lists},
	} {
		data, err := json.Marshal(own.doc)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", own.name, err)
		}
		if err := appendMember(own.to, own.name, data); err != nil {
			return err
		}
	}
	for _, doc := range img.documents() {
		if err := appendMember(&head, img.blobName(doc.Digest), doc.Data); err != nil {
			return err
		}
	}
	img.head, img.tail = head.Bytes(), tail.Bytes()
	return nil
}

// documents are the blobs of the head, in their order. What index.json does not lead to is left out.
func (img Image) documents() []Document {
	var documents []Document
	if img.Recompressed() {
		documents = append(documents, img.carrier)
	}
	if !img.Recompressed() || img.form.naming != byDigest {
		documents = append(documents, img.root)
		if img.root.Digest != img.manifest.Digest {
			documents = append(documents, img.manifest)
		}
	}
	return append(documents, img.config)
}

func (img Image) metadata() metadata {
	m := metadata{
		FormatVersion: FormatExact,
		Reference:     img.ref,
		Platform:      img.platform,
		Root:          img.root.blob(),
		Manifest:      img.manifest.blob(),
		Config:        img.config.blob(),
		Layers:        make([]blob, len(img.layers)),
	}
	if img.Recompressed() {
		carrier := img.carrier.blob()
		m.FormatVersion, m.Carrier = FormatRecompressed, &carrier
	}
	for i, l := range img.layers {
		m.Layers[i] = blob{l.Descriptor.Digest, l.Descriptor.Size}
	}
	return m
}

// index is the layout's index.json: one descriptor, because skopeo and podman refuse two. Containerd takes the image's
// name from the first annotation, OCI tools from the second.
//
// Of a recompressed image the carrier comes first, without a name, so that Docker's containerd store unpacks its layers
// before it looks at the root, whose layers are not there. Where the digest is a name, the carrier has it alone.
func (img Image) index() ocispec.Index {
	index := ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{img.root.Descriptor()},
	}
	switch {
	case !img.Recompressed():
	case img.form.naming == byDigest:
		index.Manifests = []ocispec.Descriptor{img.carrier.Descriptor()}
	default:
		index.Manifests = []ocispec.Descriptor{img.carrier.Descriptor(), img.root.Descriptor()}
	}
	if img.form.naming == unnamed {
		return index
	}
	name, ref := img.ref.Tagged(), img.ref.Tag()
	if name == "" || img.form.naming == byDigest {
		name, ref = img.ref.WithDigest(img.root.Digest), img.root.Digest.String()
	}
	index.Manifests[len(index.Manifests)-1].Annotations = map[string]string{annotationContainerdName: name, ocispec.AnnotationRefName: ref}
	return index
}

// dockerImages is Docker's manifest.json. An artifact is no image of Docker's.
func (img Image) dockerImages() []dockerImage {
	if img.Artifact() {
		return []dockerImage{}
	}
	return []dockerImage{img.dockerImage()}
}

// dockerImage is the image as Docker's classic store loads it. It refuses names without a tag, so an image by digest
// alone has none.
func (img Image) dockerImage() dockerImage {
	d := dockerImage{Config: img.blobName(img.config.Digest), Layers: make([]string, len(img.layers))}
	if tagged := img.ref.Tagged(); tagged != "" && img.form.naming == byReference {
		d.RepoTags = []string{tagged}
	}
	for i, l := range img.layers {
		d.Layers[i] = img.blobName(l.Descriptor.Digest)
	}
	return d
}

// stored is a layer as the archive keeps it: the first of its digest, the header of its member at offset.
type stored struct {
	layer        int
	offset, size int64
}

// end is the offset behind the layer's padding.
func (s stored) end() int64 { return s.offset + blockSize + padded(s.size) }

// stored are the layers in the order of the archive, each blob once.
func (img Image) stored() []stored {
	seen := make(map[digest.Digest]bool, len(img.layers))
	layers := make([]stored, 0, len(img.layers))
	at := int64(len(img.head))
	for i, l := range img.layers {
		if seen[l.Descriptor.Digest] {
			continue
		}
		seen[l.Descriptor.Digest] = true
		s := stored{layer: i, offset: at, size: l.Descriptor.Size}
		layers = append(layers, s)
		at = s.end()
	}
	return layers
}

// EncodedSize is the length of img's archive in bytes.
func EncodedSize(img Image) int64 {
	end := int64(len(img.head))
	for _, s := range img.stored() {
		end = s.end()
	}
	return end + int64(len(img.tail)) + trailerSize
}

func appendMember(b *bytes.Buffer, name string, data []byte) error {
	h, err := header(name, int64(len(data)))
	if err != nil {
		return err
	}
	b.Write(h)
	b.Write(data)
	b.Write(make([]byte, padded(int64(len(data)))-int64(len(data))))
	return nil
}

// header is the one header block that a member has: a plain file without owner or time. A size too large for ustar is
// written in base 256, as GNU tar does and every reader in use understands: that needs no second member, as PAX would.
func header(name string, size int64) ([]byte, error) {
	var block bytes.Buffer
	h := tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: memberMode, Format: tar.FormatUSTAR}
	if size >= ustarMax {
		h.Format = tar.FormatGNU
	}
	if err := tar.NewWriter(&block).WriteHeader(&h); err != nil {
		return nil, fmt.Errorf("encoding the header of %s: %w", name, err)
	}
	return block.Bytes(), nil
}

// blobName is the member that holds the blob d.
func (img Image) blobName(d digest.Digest) string { return path.Join(img.form.folder, blobName(d)) }

// blobName is the place of the blob d in the OCI image layout.
func blobName(d digest.Digest) string { return "blobs/" + d.Algorithm().String() + "/" + d.Encoded() }

// padded is size rounded up to whole blocks.
func padded(size int64) int64 { return (size + blockSize - 1) / blockSize * blockSize }
