package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

const (
	// prefixSize is what Decode reads at once, in bytes. The head of nearly every image fits.
	prefixSize = 256 << 10
	// maxOwn bounds the members of the head that pullonce makes itself, in bytes; MaxLayers of them need a tenth.
	maxOwn = 1 << 20
	// maxHead bounds what Decode reads at once where it is told how much, in bytes.
	maxHead = 16 << 20
)

// Ranger is an io.ReaderAt that can stream as well. Decode's image reads each layer by one Range instead of many reads.
type Ranger interface {
	// Range opens the n bytes from off on; the caller closes it. Safe for concurrent use.
	Range(ctx context.Context, off, n int64) (io.ReadCloser, error)
}

// Headed is an io.ReaderAt that knows how large the head is, in bytes, or how much of it is at hand. Decode reads as much
// at first.
type Headed interface {
	HeadSize() int64
}

// Decode reads the head of the archive in the first size bytes of r: one read of at most 256 KiB, and more only for
// larger documents. Layers are read from r when they are asked for, so r must outlive the image. Every byte of the
// head and the size are held to what Encode writes; a difference is ErrVerify. An error of r itself is not.
func Decode(ctx context.Context, r io.ReaderAt, size int64) (Image, error) {
	if err := ctx.Err(); err != nil {
		return Image{}, fmt.Errorf("reading the archive: %w", err)
	}
	img, err := decode(r, size)
	if err != nil {
		return Image{}, fmt.Errorf("reading the archive: %w", err)
	}
	return img, nil
}

func decode(r io.ReaderAt, size int64) (Image, error) {
	h := headReader{r: r, size: size, ahead: prefixSize}
	if headed, ok := r.(Headed); ok {
		h.ahead = min(headed.HeadSize(), maxHead)
	}
	parts, err := h.parts()
	if err != nil {
		return Image{}, err
	}
	layers := &archiveSource{r: r, offsets: make(map[digest.Digest]int64)}
	parts.Source = layers
	img, err := New(parts)
	if err != nil {
		return Image{}, err
	}
	if !bytes.Equal(h.buf[:h.at], img.head) {
		return Image{}, fmt.Errorf("%w: the head is not what the image of %s makes it", ErrVerify, img.ref.Familiar())
	}
	if want := EncodedSize(img); size != want {
		return Image{}, fmt.Errorf("%w: %d bytes, the archive of %s has %d", ErrVerify, size, img.ref.Familiar(), want)
	}
	for _, s := range img.stored() {
		layers.offsets[img.layers[s.layer].Descriptor.Digest] = s.offset
	}
	return img, nil
}

// VerifyArchive reads the whole archive in the first size bytes of r: besides the layers also the padding and the
// trailer. What it accepts is, byte for byte, what Encode writes for the image that it returns.
func VerifyArchive(ctx context.Context, r io.ReaderAt, size int64) (Image, error) {
	img, err := Decode(ctx, r, size)
	if err != nil {
		return Image{}, err
	}
	if err := Verify(ctx, img); err != nil {
		return Image{}, fmt.Errorf("reading the archive of %s: %w", img.ref.Familiar(), err)
	}
	for _, s := range img.stored() {
		if err := verifyZeros(r, s.offset+blockSize+s.size, s.end()); err != nil {
			return Image{}, err
		}
	}
	if err := verifyZeros(r, size-trailerSize, size); err != nil {
		return Image{}, err
	}
	return img, nil
}

// verifyZeros holds the bytes from..to, at most two blocks, to being zero.
func verifyZeros(r io.ReaderAt, from, to int64) error {
	got, err := readRange(r, from, to-from)
	if err != nil {
		return fmt.Errorf("reading the archive: %w", err)
	}
	if !bytes.Equal(got, make([]byte, len(got))) {
		return fmt.Errorf("%w: the archive's padding at %d is not zero", ErrVerify, from)
	}
	return nil
}

// headReader reads the members of the head one after the other.
type headReader struct {
	r     io.ReaderAt
	size  int64
	ahead int64  // how much to read at once, where that much is not needed
	buf   []byte // what was read so far, from the first byte on
	at    int64  // where the next member starts
}

// parts reads all members of the head. Those that repeat what the others say are compared afterwards, with the rest.
func (h *headReader) parts() (Parts, error) {
	data, err := h.member(metadataName, maxOwn)
	if err != nil {
		return Parts{}, err
	}
	meta, err := parseMetadata(data)
	if err != nil {
		return Parts{}, fmt.Errorf("%w: %s: %w", ErrVerify, metadataName, err)
	}
	for _, name := range []string{ocispec.ImageLayoutFile, ocispec.ImageIndexFile, dockerName} {
		if _, err := h.member(name, maxOwn); err != nil {
			return Parts{}, err
		}
	}
	p := Parts{Reference: meta.Reference, Platform: meta.Platform, Layers: meta.standIns()}
	if meta.Carrier != nil { // New makes it again
		if _, err := h.member(blobName(meta.Carrier.Digest), MaxDocument); err != nil {
			return Parts{}, err
		}
	}
	if p.Root, err = h.member(blobName(meta.Root.Digest), MaxDocument); err != nil {
		return Parts{}, err
	}
	p.Manifest = p.Root
	if meta.Manifest.Digest != meta.Root.Digest {
		if p.Manifest, err = h.member(blobName(meta.Manifest.Digest), MaxDocument); err != nil {
			return Parts{}, err
		}
	}
	p.Config, err = h.member(blobName(meta.Config.Digest), MaxDocument)
	return p, err
}

func parseMetadata(data []byte) (metadata, error) {
	var m metadata
	if err := json.Unmarshal(data, &m); err != nil {
		return metadata{}, err
	}
	if m.FormatVersion != FormatExact && m.FormatVersion != FormatRecompressed {
		return metadata{}, fmt.Errorf("format version %d, only %d and %d are supported", m.FormatVersion, FormatExact, FormatRecompressed)
	}
	if m.Reference.IsZero() {
		return metadata{}, errors.New("no reference")
	}
	if (m.FormatVersion == FormatRecompressed) != (m.Carrier != nil) {
		return metadata{}, fmt.Errorf("a manifest of the layers belongs into format version %d, and only there", FormatRecompressed)
	}
	documents := []blob{m.Root, m.Manifest, m.Config}
	if m.Carrier != nil {
		documents = append(documents, *m.Carrier)
	}
	for _, b := range documents {
		if err := checkDigest(b.Digest); err != nil {
			return metadata{}, err
		}
	}
	return m, nil
}

// standIns are the blobs that stand in for the manifest's layers; nil in an archive of the registry's own.
func (m metadata) standIns() []ocispec.Descriptor {
	if m.FormatVersion == FormatExact {
		return nil
	}
	blobs := make([]ocispec.Descriptor, len(m.Layers))
	for i, b := range m.Layers {
		blobs[i] = ocispec.Descriptor{Digest: b.Digest, Size: b.Size}
	}
	return blobs
}

// member reads the next member, which must be called name and have at most limit bytes.
func (h *headReader) member(name string, limit int64) ([]byte, error) {
	got, err := h.next(blockSize)
	if err != nil {
		return nil, err
	}
	// A canonical header has the size in eleven octal digits; whether the rest is canonical shows the comparison.
	size, err := strconv.ParseInt(string(got[124:135]), 8, 64)
	if err != nil || size < 0 || size > limit {
		return nil, fmt.Errorf("%w: member at %d: no size up to %d", ErrVerify, h.at-blockSize, limit)
	}
	want, err := header(name, size)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(got, want) {
		return nil, fmt.Errorf("%w: member at %d is not the plain file %s", ErrVerify, h.at-blockSize, name)
	}
	data, err := h.next(padded(size))
	if err != nil {
		return nil, err
	}
	return data[:size:size], nil
}

// next takes n more bytes, from r where the buffer has not got them yet.
func (h *headReader) next(n int64) ([]byte, error) {
	if n > h.size-h.at {
		return nil, fmt.Errorf("%w: the archive ends at %d: %w", ErrVerify, h.size, io.ErrUnexpectedEOF)
	}
	if have := int64(len(h.buf)); h.at+n > have {
		more, err := readRange(h.r, have, min(max(h.ahead, h.at+n-have), h.size-have))
		if err != nil {
			return nil, err
		}
		h.buf = append(h.buf, more...)
	}
	h.at += n
	return h.buf[h.at-n : h.at : h.at], nil
}

// archiveSource gives the layers of an archive.
type archiveSource struct {
	r       io.ReaderAt
	offsets map[digest.Digest]int64 // of the header of each layer
}

// Blob implements Source. The header in front of the blob must be the one that Encode writes.
func (a *archiveSource) Blob(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	offset, ok := a.offsets[d.Digest]
	if !ok {
		return nil, fmt.Errorf("the archive has no blob %s", d.Digest)
	}
	want, err := header(blobName(d.Digest), d.Size)
	if err != nil {
		return nil, err
	}
	rc, err := a.open(ctx, offset, blockSize+d.Size)
	if err != nil {
		return nil, err
	}
	if err := expect(rc, want); err != nil {
		rc.Close()
		return nil, fmt.Errorf("reading the archive at %d: %w", offset, err)
	}
	return rc, nil
}

func (a *archiveSource) open(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if ranger, ok := a.r.(Ranger); ok {
		return ranger.Range(ctx, off, n)
	}
	return io.NopCloser(io.NewSectionReader(a.r, off, n)), nil
}

// expect reads want from r; anything else is ErrVerify.
func expect(r io.Reader, want []byte) error {
	got := make([]byte, len(want))
	if _, err := readFull(r, got); err != nil {
		return truncated(err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%w: the member's header is not what the image makes it", ErrVerify)
	}
	return nil
}

func readRange(r io.ReaderAt, off, n int64) ([]byte, error) {
	data := make([]byte, n)
	if _, err := readFull(io.NewSectionReader(r, off, n), data); err != nil {
		return nil, truncated(err)
	}
	return data, nil
}

// truncated makes an end of file that comes too early ErrVerify, and leaves every other error of a reader alone.
func truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the archive is cut short: %w", ErrVerify, io.ErrUnexpectedEOF)
	}
	return err
}
