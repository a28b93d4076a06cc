package image_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
)

// encodedAt is img's archive as it is written in any order.
func encodedAt(t *testing.T, ctx context.Context, img image.Image) ([]byte, error) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "archive"))
	require.NoError(t, err)
	defer f.Close()
	encoding := image.EncodeAt(ctx, f, img)
	data, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	return data, encoding
}

func TestAnArchiveIsTheSameInWhicheverOrderItIsWritten(t *testing.T) {
	t.Parallel()
	for name, o := range shapes {
		img := imagetest.New(t, o)
		got, err := encodedAt(t, t.Context(), img)
		require.NoError(t, err)
		require.Equal(t, encoded(t, img), got, name)
	}
}

// relayer is a source that hands blobs on, and that may spoil what it hands on the given try.
type relayer struct {
	imagetest.Blobs
	spoil func(try int, data []byte) []byte

	mu    sync.Mutex
	tries map[digest.Digest]int
}

var errOther = errors.New("another blob")

// Blob implements image.Source. Nobody is to ask for a blob that is relayed.
func (r *relayer) Blob(context.Context, ocispec.Descriptor) (io.ReadCloser, error) {
	return nil, errors.New("it was not relayed")
}

// Relay implements image.Relayer: three times at most.
func (r *relayer) Relay(_ context.Context, d ocispec.Descriptor, use func(io.Reader) error) error {
	for {
		r.mu.Lock()
		r.tries[d.Digest]++
		try := r.tries[d.Digest]
		r.mu.Unlock()
		data := r.spoil(try, bytes.Clone(r.Blobs[d.Digest]))
		if data == nil {
			return errOther
		}
		err := use(bytes.NewReader(data))
		if !errors.Is(err, image.ErrVerify) || try == 3 {
			return err
		}
	}
}

func relayed(t *testing.T, o imagetest.Options, spoil func(int, []byte) []byte) image.Image {
	t.Helper()
	parts := imagetest.Parts(t, o)
	parts.Source = &relayer{Blobs: parts.Source.(imagetest.Blobs), spoil: spoil, tries: map[digest.Digest]int{}}
	img, err := image.New(parts)
	require.NoError(t, err)
	return img
}

func TestALayerThatComesWrongIsWrittenAgain(t *testing.T) {
	t.Parallel()
	for _, recompressed := range []bool{false, true} {
		o := imagetest.Options{Layers: 4, LayerSize: 300 << 10, Recompressed: recompressed}
		for name, spoil := range map[string]func(try int, data []byte) []byte{
			"a byte": func(try int, data []byte) []byte { data[len(data)/2] ^= byte(2 - min(try, 2)); return data },
			"cut":    func(try int, data []byte) []byte { return data[:len(data)*min(try, 2)/2] },
		} {
			got, err := encodedAt(t, t.Context(), relayed(t, o, spoil))
			require.NoError(t, err, name)
			require.Equal(t, encoded(t, imagetest.New(t, o)), got, name)
		}
	}
}

func TestALayerThatStaysWrongEndsTheArchive(t *testing.T) {
	t.Parallel()
	o := imagetest.Options{Layers: 4}
	for name, tc := range map[string]struct {
		spoil func(int, []byte) []byte
		want  error
	}{
		"wrong":     {func(_ int, data []byte) []byte { data[0] ^= 1; return data }, image.ErrVerify},
		"not there": {func(int, []byte) []byte { return nil }, errOther},
	} {
		got, err := encodedAt(t, t.Context(), relayed(t, o, tc.spoil))
		require.ErrorIs(t, err, tc.want, name)
		require.ErrorIs(t, err, image.ErrRead, name)
		_, err = image.Decode(t.Context(), bytes.NewReader(got), int64(len(got)))
		require.ErrorIs(t, err, image.ErrVerify, "what was written is no archive")
	}
}

func TestAPlaceThatTakesNoBytesIsNoFaultOfTheImage(t *testing.T) {
	t.Parallel()
	good := func(_ int, data []byte) []byte { return data }
	for _, img := range []image.Image{imagetest.New(t, imagetest.Options{Layers: 2}), relayed(t, imagetest.Options{Layers: 2}, good)} {
		size := image.EncodedSize(img)
		for _, room := range []int64{0, 600, size / 2, size - 1} {
			err := image.EncodeAt(t.Context(), narrow(room), img)
			require.ErrorIs(t, err, errFull, "%d of %d bytes", room, size)
			require.NotErrorIs(t, err, image.ErrRead)
		}
		require.NoError(t, image.EncodeAt(t.Context(), narrow(size), img))
	}
}

// narrow has room for so many bytes.
type narrow int64

var errFull = errors.New("full")

func (n narrow) WriteAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > int64(n) {
		return 0, errFull
	}
	return len(p), nil
}

func TestWritingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	img := imagetest.New(t, imagetest.Options{Layers: 3}).Observe(func(int) { cancel() })
	_, err := encodedAt(t, ctx, img)
	require.ErrorIs(t, err, context.Canceled)
	_, err = encodedAt(t, ctx, img)
	require.ErrorIs(t, err, context.Canceled)
}
