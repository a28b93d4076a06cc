package image_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
)

func TestSectionsBeginLayersAndTheTrailer(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Layers: 3, Repeat: true})
	var archive bytes.Buffer
	require.NoError(t, image.Encode(t.Context(), &archive, img))

	sections := image.Sections(img)
	require.Len(t, sections, 4, "three blobs, one of them in two layers, and the trailer")
	for i, l := range img.Layers()[:3] {
		name := "blobs/sha256/" + l.Descriptor.Digest.Encoded()
		require.Equal(t, name, string(archive.Bytes()[sections[i]:][:len(name)]))
	}
	require.Equal(t, make([]byte, 1024), archive.Bytes()[sections[3]:])
}

func TestDecodeReadsNoMoreThanTheHeadWhereItsSizeIsKnown(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{LayerSize: 1 << 20})
	var archive bytes.Buffer
	require.NoError(t, image.Encode(t.Context(), &archive, img))
	r := &headed{Reader: bytes.NewReader(archive.Bytes()), head: image.Sections(img)[0]}

	got, err := image.Decode(t.Context(), r, int64(archive.Len()))
	require.NoError(t, err)
	require.Equal(t, img.Manifest(), got.Manifest())
	require.Equal(t, r.head, r.read)
}

func TestDecodeReadsOnWhereTheHeadIsLargerThanSaid(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{})
	var archive bytes.Buffer
	require.NoError(t, image.Encode(t.Context(), &archive, img))
	for _, head := range []int64{-1, 0, 1, 512, 700} {
		_, err := image.Decode(t.Context(), &headed{Reader: bytes.NewReader(archive.Bytes()), head: head}, int64(archive.Len()))
		require.NoError(t, err, head)
	}
}

// headed counts what is read.
type headed struct {
	*bytes.Reader
	head, read int64
}

func (h *headed) HeadSize() int64 { return h.head }

func (h *headed) ReadAt(p []byte, off int64) (int, error) {
	n, err := h.Reader.ReadAt(p, off)
	h.read += int64(n)
	return n, err
}
