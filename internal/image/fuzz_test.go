package image_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
)

// FuzzDecode holds whatever is accepted to be, byte for byte, what Encode writes for the image that was read.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"one layer", "no layer", "index", "by digest alone", "a layer twice"} {
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
	f.Fuzz(func(t *testing.T, data []byte) {
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
	})
}

// FuzzRoundTrip makes images of all shapes and spoils one byte of each archive.
func FuzzRoundTrip(f *testing.F) {
	f.Add("redis:7", uint8(1), uint16(10), false, false, false, false, uint32(0), byte(0))
	f.Add("ghcr.io/a/b:1", uint8(3), uint16(511), true, true, false, true, uint32(1000), byte(1))
	f.Add("[::1]:5000/x", uint8(0), uint16(0), true, false, true, false, uint32(5000), byte(' '))
	f.Fuzz(func(t *testing.T, ref string, layers uint8, size uint16, index, digest, byDigest, repeat bool, at uint32, flip byte) {
		o := imagetest.Options{
			Reference: ref, Layers: int(layers%8) - 1, LayerSize: int(size), Index: index, Digest: digest, ByDigest: byDigest, Repeat: repeat,
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
