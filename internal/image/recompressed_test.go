package image_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
)

var recompressed = imagetest.Options{Index: true, Digest: true, Layers: 2, LayerSize: 300_000, Recompressed: true}

func TestRecompressedKeepsTheDocuments(t *testing.T) {
	t.Parallel()
	o := recompressed
	img := imagetest.New(t, o)
	o.Recompressed = false
	exact := imagetest.New(t, o)
	require.True(t, img.Recompressed())
	require.False(t, exact.Recompressed())
	require.Equal(t, exact.Manifest(), exact.Carrier())
	require.Equal(t, exact.Root(), img.Root())
	require.Equal(t, exact.Manifest(), img.Manifest())
	require.Equal(t, exact.Config(), img.Config())
	require.Equal(t, exact.Reference(), img.Reference())

	var carrier ocispec.Manifest
	require.NoError(t, json.Unmarshal(img.Carrier().Data, &carrier))
	require.Equal(t, img.Config().Digest, carrier.Config.Digest)
	for i, l := range img.Layers() {
		require.Equal(t, l.Descriptor, carrier.Layers[i])
		require.Equal(t, ocispec.MediaTypeImageLayerZstd, l.Descriptor.MediaType)
		require.Equal(t, exact.Layers()[i].DiffID, l.DiffID)
	}
	require.NoError(t, image.Verify(t.Context(), img))
}

// What nothing stands in for is the image that the registry has, with its archive.
func TestLayersThatStandInForThemselves(t *testing.T) {
	t.Parallel()
	p := imagetest.Parts(t, imagetest.Options{Layers: 3})
	exact, err := image.New(p)
	require.NoError(t, err)
	for _, l := range exact.Layers() {
		p.Layers = append(p.Layers, l.Descriptor)
	}
	img, err := image.New(p)
	require.NoError(t, err)
	require.False(t, img.Recompressed())
	require.Equal(t, encoded(t, exact), encoded(t, img))
}

// Some layers may be what they were.
func TestSomeLayersRecompressed(t *testing.T) {
	t.Parallel()
	p := imagetest.Parts(t, imagetest.Options{Layers: 2, Recompressed: true})
	var manifest ocispec.Manifest
	require.NoError(t, json.Unmarshal(p.Manifest, &manifest))
	p.Layers[1] = manifest.Layers[1]
	img, err := image.New(p)
	require.NoError(t, err)
	require.True(t, img.Recompressed())
	got, err := verifyArchive(t, encoded(t, img))
	require.NoError(t, err)
	require.Equal(t, img.Layers(), got.Layers())
	require.Equal(t, ocispec.MediaTypeImageLayerGzip, got.Layers()[1].Descriptor.MediaType)
}

func TestStandInsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*image.Parts)
		want   string
	}{
		"too few":          {func(p *image.Parts) { p.Layers = p.Layers[:1] }, "1 layers stand in for 2"},
		"too many":         {func(p *image.Parts) { p.Layers = append(p.Layers, p.Layers[0]) }, "3 layers stand in for 2"},
		"none":             {func(p *image.Parts) { p.Layers = []ocispec.Descriptor{} }, "0 layers stand in for 2"},
		"another type":     {func(p *image.Parts) { p.Layers[1].MediaType = ocispec.MediaTypeImageLayerGzip }, "only zstd may"},
		"no digest":        {func(p *image.Parts) { p.Layers[1].Digest = "" }, "layer 1: digest"},
		"a path as digest": {func(p *image.Parts) { p.Layers[0].Digest = "sha256:../../x" }, "layer 0: digest"},
		"a negative size":  {func(p *image.Parts) { p.Layers[0].Size = -1 }, "layer 0: size -1"},
		"one in two sizes": {func(p *image.Parts) { p.Layers[0].Digest = p.Layers[1].Digest; p.Layers[0].Size++ }, "mentioned before"},
		"the root's name":  {func(p *image.Parts) { p.Layers[0].Digest = digest.FromBytes(p.Root) }, "mentioned before"},
		"the manifest's":   {func(p *image.Parts) { p.Layers[0].Digest = digest.FromBytes(p.Manifest) }, "mentioned before"},
		"the config's":     {func(p *image.Parts) { p.Layers[0].Digest = digest.FromBytes(p.Config) }, "mentioned before"},
		"those of an artifact": {func(p *image.Parts) {
			layers := p.Layers
			*p = imagetest.Parts(t, imagetest.Options{Artifact: true, Layers: 2})
			p.Layers = layers
		}, "an artifact has no contents"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := imagetest.Parts(t, recompressed)
			test.change(&p)
			_, err := image.New(p)
			require.ErrorIs(t, err, image.ErrVerify)
			require.ErrorContains(t, err, test.want)
		})
	}
}

// Whoever writes to a store can give a blob any digest there. Only the config's diff ids say what it must hold.
func TestContentIsHeldToTheConfig(t *testing.T) {
	t.Parallel()
	other := imagetest.Parts(t, imagetest.Options{LayerSize: 300_000, Recompressed: true, Seed: 7})
	foreign := other.Source.(imagetest.Blobs)[other.Layers[0].Digest]
	for name, test := range map[string]struct {
		blob []byte
		want string
	}{
		"another content":    {foreign, "the config says"},
		"no content":         {imagetest.Zstd(nil), "the config says"},
		"nothing":            {nil, "the config says"},
		"no zstd":            {bytes.Repeat([]byte("no zstd "), 100_000), "unpacking blob"},
		"a broken frame":     {foreign[:200_000], "unpacking blob"},
		"a huge window":      {append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8}, foreign[9:]...), "unpacking blob"},
		"a second frame":     {append(bytes.Clone(foreign), imagetest.Zstd([]byte("more"))...), "the config says"},
		"something behind":   {append(bytes.Clone(foreign), "more"...), "unpacking blob"},
		"a cut magic number": {[]byte{0x28, 0xb5}, "unpacking blob"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := imagetest.Parts(t, recompressed)
			d := ocispec.Descriptor{Digest: digest.FromBytes(test.blob), Size: int64(len(test.blob))}
			p.Source.(imagetest.Blobs)[d.Digest] = test.blob
			p.Layers[1] = d
			img, err := image.New(p)
			require.NoError(t, err)
			layer, err := img.Layer(t.Context(), 1)
			require.NoError(t, err)
			got, err := io.ReadAll(layer)
			require.ErrorIs(t, err, image.ErrVerify)
			require.ErrorIs(t, err, image.ErrRead)
			require.ErrorContains(t, err, test.want)
			require.Less(t, len(got), max(1, len(test.blob)), "the last byte is kept back")
			_, err = layer.Read(make([]byte, 1))
			require.ErrorIs(t, err, image.ErrVerify, "it stays wrong")
			require.NoError(t, layer.Close())
			require.Error(t, image.Encode(t.Context(), io.Discard, img))
		})
	}
}

// What a real compressor makes, in several frames or with padding between them, is what its content is.
func TestContentOfARealCompressor(t *testing.T) {
	t.Parallel()
	p := imagetest.Parts(t, recompressed)
	blobs := p.Source.(imagetest.Blobs)
	decoder, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer decoder.Close()
	content, err := decoder.DecodeAll(blobs[p.Layers[0].Digest], nil)
	require.NoError(t, err)
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	blob := encoder.EncodeAll(content[:100_000], nil)
	blob = append(blob, 0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3) // a skippable frame
	blob = append(blob, encoder.EncodeAll(content[100_000:], nil)...)
	p.Layers[0] = ocispec.Descriptor{Digest: digest.FromBytes(blob), Size: int64(len(blob))}
	blobs[p.Layers[0].Digest] = blob
	img, err := image.New(p)
	require.NoError(t, err)
	layer, err := img.Layer(t.Context(), 0)
	require.NoError(t, err)
	got, err := io.ReadAll(iotest.OneByteReader(layer))
	require.NoError(t, err)
	require.Equal(t, blob, got)
	require.NoError(t, layer.Close())
}

// A source that fails is no verdict on its content, and whoever stops early leaves nothing running: the bubble would not
// end.
func TestUnpackingEndsWithItsReader(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, read := range map[string]func(t *testing.T, layer io.Reader, fail func(error)){
		"unread": func(*testing.T, io.Reader, func(error)) {},
		"cancelled": func(t *testing.T, layer io.Reader, fail func(error)) {
			_, err := io.ReadFull(layer, make([]byte, 1000))
			require.NoError(t, err)
		},
		"broken": func(t *testing.T, layer io.Reader, fail func(error)) {
			_, err := io.ReadFull(layer, make([]byte, 1000))
			require.NoError(t, err)
			fail(broken)
			_, err = io.ReadAll(layer)
			require.ErrorIs(t, err, broken)
			require.ErrorIs(t, err, image.ErrRead)
			require.NotErrorIs(t, err, image.ErrVerify)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var failure error
				img := imagetest.New(t, recompressed).Via(func(s image.Source) image.Source {
					return imagetest.Source(func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
						rc, err := s.Blob(ctx, d)
						return io.NopCloser(breakable{rc, &failure}), err
					})
				})
				layer, err := img.Layer(t.Context(), 0)
				require.NoError(t, err)
				read(t, layer, func(err error) { failure = err })
				require.NoError(t, layer.Close())
			})
		})
	}
}

// breakable is a reader that fails once it is told to.
type breakable struct {
	io.Reader
	err *error
}

// Read implements io.Reader.
func (f breakable) Read(p []byte) (int, error) {
	if *f.err != nil {
		return 0, *f.err
	}
	return f.Reader.Read(p)
}

// Containerd is given one descriptor, and its name is the root's digest, to which it is held before it has any other.
func TestByDigestOfARecompressedImageIsTheCarrier(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, recompressed)
	named, err := img.ByDigest()
	require.NoError(t, err)
	var index ocispec.Index
	members := documents(t, encoded(t, named))
	require.NoError(t, json.Unmarshal([]byte(members["index.json"]), &index))
	require.Len(t, index.Manifests, 1)
	require.Equal(t, img.Carrier().Digest, index.Manifests[0].Digest)
	require.Equal(t, img.Reference().WithDigest(img.Root().Digest), index.Manifests[0].Annotations["io.containerd.image.name"])
	require.NotContains(t, members, "blobs/sha256/"+img.Root().Digest.Encoded(), "nothing leads to it")
}
