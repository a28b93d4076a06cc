package image_test

import (
	"archive/tar"
	"bytes"
	"io"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
)

// FuzzDecode reads any bytes as an archive.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"one layer", "no layer", "index", "by digest alone", "a layer twice", "recompressed", "zstd, index"} {
		o := shapes[name]
		o.LayerSize = 10
		data := encoded(f, imagetest.New(f, o))
		f.Add(data)
		f.Add(data[:len(data)-1024])
		f.Add(data[:512])
		f.Add(bytes.Replace(data, []byte("library/test"), []byte("library/evil"), 1))
		f.Add(bytes.ReplaceAll(data, []byte("oci-layout"), []byte("../../layo")))
	}
	f.Add([]byte{})
	f.Add(make([]byte, 10240))
	f.Fuzz(holdsToItsBytes)
}

// FuzzDocuments gives the members of the head any content, under headers that are right: so it comes further than
// FuzzDecode. The digests in the names are those that the metadata says.
func FuzzDocuments(f *testing.F) {
	for _, name := range []string{"one layer", "index", "by digest alone", "a layer twice"} {
		o := shapes[name]
		o.LayerSize = 10
		all := members(f, encoded(f, imagetest.New(f, o)))
		manifest := all[len(all)-3]
		f.Add(all[0].data, all[2].data, all[3].data, all[4].data, manifest.data, all[len(all)-2].data, all[len(all)-1].data)
	}
	f.Fuzz(func(t *testing.T, metadata, index, docker, root, manifest, config, layer []byte) {
		all := []member{
			plain("pullonce.json", metadata), plain("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)),
			plain("index.json", index), plain("manifest.json", docker), plain(blobPath(root), root),
		}
		if !bytes.Equal(root, manifest) {
			all = append(all, plain(blobPath(manifest), manifest))
		}
		holdsToItsBytes(t, pack(t, append(all, plain(blobPath(config), config), plain(blobPath(layer), layer))))
	})
}

func plain(name string, data []byte) member {
	return member{tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Format: tar.FormatUSTAR}, data}
}

func blobPath(data []byte) string { return "blobs/sha256/" + digest.FromBytes(data).Encoded() }

// holdsToItsBytes holds what is accepted as an archive to being, byte for byte, what Encode writes for the image read.
func holdsToItsBytes(t *testing.T, data []byte) {
	img, err := image.Decode(t.Context(), bytes.NewReader(data), int64(len(data)))
	if err != nil {
		require.ErrorIs(t, err, image.ErrVerify)
		return
	}
	require.Equal(t, image.EncodedSize(img), int64(len(data)))
	if image.Verify(t.Context(), img) != nil {
		require.Error(t, image.Encode(t.Context(), io.Discard, img))
		return
	}
	written := encoded(t, img)
	_, err = verifyArchive(t, data)
	require.Equal(t, bytes.Equal(data, written), err == nil)
}

// FuzzRoundTrip makes images of all shapes and spoils one byte of each archive.
func FuzzRoundTrip(f *testing.F) {
	f.Add("redis:7", uint8(1), uint16(10), false, false, false, false, uint32(0), byte(0))
	f.Add("ghcr.io/a/b:1", uint8(3), uint16(511), true, true, false, true, uint32(1000), byte(1))
	f.Add("[::1]:5000/x", uint8(0), uint16(0), true, false, true, false, uint32(5000), byte(' '))
	f.Fuzz(func(t *testing.T, ref string, layers uint8, size uint16, index, withDigest, byDigest, repeat bool, at uint32, flip byte) {
		o := imagetest.Options{
			Reference: ref, Layers: int(layers%8) - 1, LayerSize: int(size), Index: index, Digest: withDigest, ByDigest: byDigest, Repeat: repeat,
		}
		if !o.Valid() {
			return
		}
		img := imagetest.New(t, o)
		data := encoded(t, img)
		got, err := verifyArchive(t, data)
		require.NoError(t, err)
		require.NoError(t, got.Is(img.Reference(), img.Platform()))
		require.Equal(t, data, encoded(t, got))

		data[at%uint32(len(data))] ^= flip
		_, err = verifyArchive(t, data)
		if flip == 0 {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, image.ErrVerify)
		}
	})
}
