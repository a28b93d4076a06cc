package entry_test

import (
	"archive/tar"
	"bytes"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/store/actions/entry"
)

// behind is an entry whose archive stands behind a member of size zeros.
func behind(t *testing.T, size int64) []byte {
	t.Helper()
	img := encoded(t, imagetest.New(t, imagetest.Options{}))
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed, zstd.WithEncoderLevel(zstd.SpeedFastest))
	require.NoError(t, err)
	w := tar.NewWriter(z)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Size: size}))
	_, err = io.CopyN(w, zeros{}, size)
	require.NoError(t, err)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: entry.Path(key) + "/image.tar", Size: int64(len(img))}))
	_, err = w.Write(img)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return packed.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestALittleInFrontOfTheArchiveIsPassed(t *testing.T) {
	t.Parallel()
	_, err := open(t, &memory{data: behind(t, 1<<20-4096)})
	require.NoError(t, err)
}

// What is compressed well costs much time and few bytes, so that it is not the bytes read that must be bounded.
func TestABombInFrontOfTheArchiveIsCorruptAndNotUnpacked(t *testing.T) {
	t.Parallel()
	data := behind(t, 2<<30)
	m := &memory{data: data}
	_, err := open(t, m)
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.ErrorContains(t, err, "in its first 1048576 bytes")
	require.Zero(t, m.gets, "nothing behind the prefix is read")
	require.Greater(t, len(data), entry.PrefixSize)
}

func TestAPanicOfTheBlobIsAnError(t *testing.T) {
	t.Parallel()
	for from, write := range makers {
		m := &memory{data: write(t, large(t))}
		got, err := open(t, m)
		require.NoError(t, err)
		m.spoil = func(int64, int, []byte) error { panic("a bug") }
		rc, err := got.Layer(t.Context(), 1)
		if err == nil {
			_, err = io.Copy(io.Discard, rc)
			require.NoError(t, rc.Close())
		}
		require.ErrorContains(t, err, "panicked: a bug", from)
	}
}
