package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/goldentest"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
)

// shapes are the kinds of image that an archive may hold.
var shapes = map[string]imagetest.Options{
	"one layer":       {},
	"no layer":        {Layers: -1},
	"index":           {Index: true, Layers: 3},
	"tag and digest":  {Reference: "ghcr.io/a/b:1", Index: true, Digest: true},
	"by digest alone": {Index: true, ByDigest: true},
	"a layer twice":   {Layers: 2, Repeat: true},
	"whole blocks":    {Layers: 3, LayerSize: 512 * 100},
	"a large layer":   {LayerSize: 1 << 20},
	"a host and port": {Reference: "[::1]:5000/a:1"},
	"an artifact":     {Artifact: true, Layers: 2},
	"recompressed":    {Layers: 3, Recompressed: true, Repeat: true},
	"zstd, index":     {Reference: "ghcr.io/a/b:1", Index: true, Digest: true, Layers: 2, Recompressed: true},
	"zstd, by digest": {Index: true, ByDigest: true, Recompressed: true, LayerSize: 300 << 10},
}

func encoded(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, image.Encode(t.Context(), &b, img))
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, o := range shapes {
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
		})
	}
}

// The format is frozen: archives of earlier versions must stay readable, and the same image must give the same bytes.
func TestArchiveIsFrozen(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tag and digest", "by digest alone", "a layer twice", "an artifact", "recompressed", "zstd, index"} {
		data := encoded(t, imagetest.New(t, shapes[name]))
		var got strings.Builder
		for _, m := range members(t, data) {
			fmt.Fprintf(&got, "-- %s %d %#o\n", m.Name, m.Size, m.Mode)
			if !strings.HasPrefix(m.Name, "blobs/") {
				fmt.Fprintf(&got, "%s\n", m.data)
			}
		}
		fmt.Fprintf(&got, "-- the whole\n%s\n", digest.FromBytes(data))
		golden := filepath.Join("testdata", "archive", strings.NewReplacer(" ", "-", ",", "").Replace(name)+".golden")
		goldentest.Equal(t, golden, got.String())
	}
}

func TestMembersArePlainFilesWithoutTimeOrOwner(t *testing.T) {
	t.Parallel()
	for name, o := range shapes {
		for _, m := range members(t, encoded(t, imagetest.New(t, o))) {
			require.Equal(t, tar.FormatUSTAR, m.Format, name)
			require.EqualValues(t, tar.TypeReg, m.Typeflag, name)
			require.Zero(t, m.ModTime.Unix(), name)
			require.Empty(t, m.Uname+m.Gname, name)
			require.Zero(t, m.Uid+m.Gid, name)
		}
	}
}

// member is a member of a tar for tests to look at and spoil.
type member struct {
	tar.Header
	data []byte
}

func members(t testing.TB, data []byte) []member {
	t.Helper()
	var all []member
	for tr := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		content, err := io.ReadAll(tr)
		require.NoError(t, err)
		all = append(all, member{*h, content})
	}
}

// Some readers take a tar that ends between two members for whole, trailer or not.
func TestAnAbortedArchiveEndsAmidAMember(t *testing.T) {
	t.Parallel()
	p := imagetest.Parts(t, imagetest.Options{Layers: 3})
	blobs := p.Source.(imagetest.Blobs)
	for name, blob := range map[string]imagetest.Source{
		"wrong bytes": func(_ context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(bytes.Repeat([]byte("x"), int(d.Size)))), nil
		},
		"short": func(_ context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(blobs[d.Digest][1:])), nil
		},
		"absent": func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) { return nil, errBroken },
		"broken off": func(_ context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(bytes.NewReader(blobs[d.Digest][:100]), iotest.ErrReader(errBroken))), nil
		},
	} {
		p.Source = blob
		img, err := image.New(p)
		require.NoError(t, err)
		var b bytes.Buffer
		require.Error(t, image.Encode(t.Context(), &b, img), name)
		require.Less(t, int64(b.Len()), image.EncodedSize(img)-1024, name)
		tr := tar.NewReader(&b)
		for err = nil; err == nil; {
			if _, err = tr.Next(); err == nil {
				_, err = io.Copy(io.Discard, tr)
			}
		}
		require.Equal(t, io.ErrUnexpectedEOF, err, "%s: the end is amid a member", name)
	}
}

func TestWriterErrorsAreKept(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Layers: 2})
	for room := range image.EncodedSize(img) {
		if room%97 != 0 && room < image.EncodedSize(img)-2 {
			continue
		}
		err := image.Encode(t.Context(), &smallDisk{int(room)}, img)
		require.ErrorIs(t, err, syscall.ENOSPC, room)
		require.NotErrorIs(t, err, image.ErrRead)
		require.ErrorContains(t, err, "writing the archive of test:1: ")
	}
	require.NoError(t, image.Encode(t.Context(), &smallDisk{int(image.EncodedSize(img))}, img))
}

// smallDisk takes so many bytes and no more.
type smallDisk struct{ room int }

func (d *smallDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.room -= n
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func TestEncodeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var b bytes.Buffer
	require.ErrorIs(t, image.Encode(ctx, &b, imagetest.New(t, imagetest.Options{})), context.Canceled)
	require.Zero(t, b.Len())
	_, err := image.Decode(ctx, bytes.NewReader(nil), 0)
	require.ErrorIs(t, err, context.Canceled)
}

// A layer of 8 GiB and more does not fit a ustar header; everything else of its archive is as usual.
func TestLayersBeyondUstar(t *testing.T) {
	t.Parallel()
	const large = 9 << 30
	p := remade(t, imagetest.Parts(t, imagetest.Options{Layers: 2}), func(m *ocispec.Manifest, _ *ocispec.Image) { m.Layers[0].Size = large })
	enough := errors.New("enough")
	p.Source = imagetest.Source(func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) { return nil, enough })
	img, err := image.New(p)
	require.NoError(t, err)
	var b bytes.Buffer
	require.ErrorIs(t, image.Encode(t.Context(), &b, img), enough)
	require.Greater(t, image.EncodedSize(img), int64(large))

	_, err = image.Decode(t.Context(), &endless{b.Bytes()}, image.EncodedSize(img))
	require.NoError(t, err)
	tr := tar.NewReader(&b)
	var last *tar.Header
	for h, err := tr.Next(); err == nil; h, err = tr.Next() {
		last = h
	}
	require.EqualValues(t, large, last.Size)
	require.Equal(t, "blobs/sha256/"+img.Layers()[0].Descriptor.Digest.Encoded(), last.Name)
}
