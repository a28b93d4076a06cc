package image_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
)

func encoded(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, image.Encode(t.Context(), &b, img))
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]imagetest.Options{
		"one layer":       {},
		"no layer":        {Layers: -1},
		"index":           {Index: true, Layers: 3},
		"tag and digest":  {Index: true, Digest: true},
		"by digest alone": {Index: true, ByDigest: true},
		"a layer twice":   {Layers: 2, Repeat: true},
		"whole blocks":    {Layers: 3, LayerSize: 512 * 100},
		"a large layer":   {LayerSize: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			img := imagetest.New(t, o)
			data := encoded(t, img)
			require.Equal(t, image.EncodedSize(img), int64(len(data)))

			got, err := image.VerifyArchive(t.Context(), bytes.NewReader(data), int64(len(data)))
			require.NoError(t, err)
			require.NoError(t, got.Is(img.Reference(), img.Platform()))
			require.Equal(t, img.Root(), got.Root())
			require.Equal(t, img.Manifest(), got.Manifest())
			require.Equal(t, img.Config(), got.Config())
			require.Equal(t, img.Layers(), got.Layers())
			require.Equal(t, data, encoded(t, got))
			for i := range got.Layers() {
				rc, err := got.Layer(t.Context(), i)
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, rc)
				require.NoError(t, err)
				require.NoError(t, rc.Close())
			}
		})
	}
}

func TestEveryFlippedByteIsSeen(t *testing.T) {
	t.Parallel()
	data := encoded(t, imagetest.New(t, imagetest.Options{Index: true, Layers: 2, Repeat: true}))
	for i := range data {
		for _, bit := range []byte{1, 0x80} {
			data[i] ^= bit
			_, err := image.VerifyArchive(t.Context(), bytes.NewReader(data), int64(len(data)))
			require.ErrorIs(t, err, image.ErrVerify, fmt.Sprintf("byte %d", i))
			data[i] ^= bit
		}
	}
}
