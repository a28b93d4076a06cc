package image_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
)

// unpacked is an image of one layer whose blob is given, and has the content, as far as its config is to be believed.
func unpacked(t *testing.T, mediaType string, blob, content []byte) image.Image {
	t.Helper()
	p := remade(t, imagetest.Parts(t, imagetest.Options{Layers: -1}), func(m *ocispec.Manifest, c *ocispec.Image) {
		m.Layers = []ocispec.Descriptor{{MediaType: mediaType, Digest: digest.FromBytes(blob), Size: int64(len(blob))}}
		c.RootFS.DiffIDs = []digest.Digest{digest.FromBytes(content)}
	})
	p.Source = imagetest.Blobs{digest.FromBytes(blob): blob}
	img, err := image.New(p)
	require.NoError(t, err)
	return img
}

func gzipped(t *testing.T, content []byte) []byte {
	return imagetest.Gzip(t, content, gzip.DefaultCompression)
}

// What a layer is packed with is told by its first bytes, as daemons do it.
func TestContentIsWhatALayerUnpacksTo(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("a layer's content "), 50_000)
	half := len(content) / 2
	for name, blob := range map[string][]byte{
		"gzip":               gzipped(t, content),
		"two gzip members":   append(gzipped(t, content[:half]), gzipped(t, content[half:])...),
		"zstd":               imagetest.Zstd(content),
		"not packed":         content,
		"nothing, in gzip":   gzipped(t, nil),
		"nothing":            {},
		"less than a magic":  {0x1f},
		"a byte, not packed": {'x'},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := content
			switch name {
			case "nothing, in gzip":
				want = nil
			case "nothing", "less than a magic", "a byte, not packed":
				want = blob
			}
			img := unpacked(t, ocispec.MediaTypeImageLayerGzip, blob, want)
			require.True(t, img.HasContent())
			for _, wrap := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.HalfReader} {
				rc, err := img.Content(t.Context(), 0)
				require.NoError(t, err)
				got, err := io.ReadAll(wrap(rc))
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, got))
				require.NoError(t, rc.Close())
			}
		})
	}
}

// What only daemons unpack is right all the same, and said to be: a blob that is wrong is not.
func TestContentInXzOrBzip2CannotBeHad(t *testing.T) {
	t.Parallel()
	for _, blob := range [][]byte{[]byte("\xfd7zXZ\x00 and more"), []byte("BZh91AY&SY and more")} {
		img := unpacked(t, ocispec.MediaTypeImageLayerGzip, blob, []byte("a content"))
		for right, source := range map[bool]image.Source{
			true:  imagetest.Blobs{digest.FromBytes(blob): blob},
			false: imagetest.Blobs{digest.FromBytes(blob): append(bytes.Clone(blob[:len(blob)-1]), 'X')},
		} {
			rc, err := img.Via(func(image.Source) image.Source { return source }).Content(t.Context(), 0)
			require.NoError(t, err)
			_, err = io.ReadAll(rc)
			require.ErrorIs(t, err, image.ErrRead)
			require.Equal(t, right, errors.Is(err, image.ErrPacked), err)
			require.Equal(t, !right, errors.Is(err, image.ErrVerify), err)
			require.NoError(t, rc.Close())
		}
	}
}

// Whoever reads a layer may be in a goroutine where nobody catches a panic of its source.
func TestASourceThatPanicsIsAnError(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{})
	panics := readerFunc(func([]byte) (int, error) { panic("a bug") })
	for name, give := range map[string]func() (io.ReadCloser, error){
		"when it is opened": func() (io.ReadCloser, error) { panic("a bug") },
		"when it is read":   func() (io.ReadCloser, error) { return io.NopCloser(panics), nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := img.Via(func(image.Source) image.Source {
				return imagetest.Source(func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) { return give() })
			})
			for _, open := range []func(context.Context, int) (io.ReadCloser, error){broken.Layer, broken.Content} {
				rc, err := open(t.Context(), 0)
				if err == nil {
					_, err = io.ReadAll(rc)
				}
				require.ErrorIs(t, err, image.ErrRead)
				require.ErrorContains(t, err, "panicked: a bug")
			}
			require.ErrorIs(t, image.Encode(t.Context(), io.Discard, broken), image.ErrRead)
		})
	}
}

type readerFunc func([]byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Neither a wrong blob nor a wrong content is handed on to its end.
func TestContentIsVerifiedToItsLastByte(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("a layer's content "), 50_000)
	blob := gzipped(t, content)
	flipped := bytes.Clone(blob)
	flipped[len(flipped)/2] ^= 1
	for name, test := range map[string]struct {
		blob, is []byte // what the manifest says, and what comes
		want     string
	}{
		"another content":      {gzipped(t, append(bytes.Clone(content), '!')), nil, "the config says"},
		"something behind":     {append(bytes.Clone(blob), "behind"...), nil, "unpacking blob"},
		"half of it":           {blob[:len(blob)/2], nil, "unpacking blob"},
		"a flipped bit":        {blob, flipped, ""},
		"cut short":            {blob, blob[:len(blob)-3], "ends after"},
		"longer":               {blob, append(bytes.Clone(blob), 0), "is longer than"},
		"nothing in its place": {blob, []byte{}, "ends after"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			img := unpacked(t, ocispec.MediaTypeImageLayerGzip, test.blob, content)
			if test.is != nil {
				img = img.Via(func(image.Source) image.Source {
					return imagetest.Source(func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) {
						return io.NopCloser(bytes.NewReader(test.is)), nil
					})
				})
			}
			rc, err := img.Content(t.Context(), 0)
			require.NoError(t, err)
			got, err := io.ReadAll(rc)
			require.ErrorIs(t, err, image.ErrVerify)
			require.ErrorIs(t, err, image.ErrRead)
			require.ErrorContains(t, err, test.want)
			require.Less(t, len(got), len(content)+1, "the last byte is kept back")
			_, err = rc.Read(make([]byte, 1))
			require.ErrorIs(t, err, image.ErrVerify, "it stays wrong")
			require.NoError(t, rc.Close())
		})
	}
}

// A source that breaks is no verdict on the layer.
func TestContentOfABrokenSource(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	content := bytes.Repeat([]byte("a layer's content "), 50_000)
	blob := gzipped(t, content)
	img := unpacked(t, ocispec.MediaTypeImageLayerGzip, blob, content).Via(func(image.Source) image.Source {
		return imagetest.Source(func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(bytes.NewReader(blob[:len(blob)/2]), iotest.ErrReader(broken))), nil
		})
	})
	rc, err := img.Content(t.Context(), 0)
	require.NoError(t, err)
	_, err = io.ReadAll(rc)
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, err, image.ErrRead)
	require.NotErrorIs(t, err, image.ErrVerify)
	require.NoError(t, rc.Close())
}

func TestHasContent(t *testing.T) {
	t.Parallel()
	for mediaType, want := range map[string]bool{
		ocispec.MediaTypeImageLayer:                             true,
		ocispec.MediaTypeImageLayerGzip:                         true,
		ocispec.MediaTypeImageLayerZstd:                         true,
		"application/vnd.docker.image.rootfs.diff.tar.gzip":     true,
		"application/vnd.docker.image.rootfs.diff.tar":          true,
		"application/vnd.oci.image.layer.v1.tar+gzip+encrypted": false,
		"application/vnd.oci.image.layer.v1.tar+xz":             false,
		"application/octet-stream":                              false,
	} {
		require.Equal(t, want, unpacked(t, mediaType, []byte("x"), []byte("x")).HasContent(), mediaType)
	}
	require.False(t, imagetest.New(t, imagetest.Options{Artifact: true}).HasContent())
}
