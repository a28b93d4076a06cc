package image_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
)

// benchmarked is an image of one layer of 64 MiB, and its archive.
func benchmarked(b *testing.B) (image.Image, []byte) {
	b.Helper()
	img := imagetest.New(b, imagetest.Options{Index: true, LayerSize: 64 << 20})
	var archive bytes.Buffer
	archive.Grow(int(image.EncodedSize(img)))
	require.NoError(b, image.Encode(b.Context(), &archive, img))
	return img, archive.Bytes()
}

// BenchmarkEncode writes the archive of an image from memory. As everywhere that layers pass, sha256 is most of it.
func BenchmarkEncode(b *testing.B) {
	img, archive := benchmarked(b)
	b.SetBytes(int64(len(archive)))
	b.ReportAllocs()
	for b.Loop() {
		if err := image.Encode(b.Context(), io.Discard, img); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerify reads all layers of an archive: what a lane does with each byte besides passing it on.
func BenchmarkVerify(b *testing.B) {
	_, archive := benchmarked(b)
	b.SetBytes(int64(len(archive)))
	b.ReportAllocs()
	for b.Loop() {
		img, err := image.Decode(b.Context(), bytes.NewReader(archive), int64(len(archive)))
		if err != nil {
			b.Fatal(err)
		}
		if err := image.Verify(b.Context(), img); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecode reads the head of an archive of 100 layers.
func BenchmarkDecode(b *testing.B) {
	img := imagetest.New(b, imagetest.Options{Index: true, Layers: 100, LayerSize: 10})
	var archive bytes.Buffer
	require.NoError(b, image.Encode(b.Context(), &archive, img))
	data := archive.Bytes()
	b.SetBytes(image.Sections(img)[0])
	b.ReportAllocs()
	for b.Loop() {
		if _, err := image.Decode(b.Context(), bytes.NewReader(data), int64(len(data))); err != nil {
			b.Fatal(err)
		}
	}
}
