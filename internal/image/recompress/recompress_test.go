package recompress_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/goldentest"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/image/recompress"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
)

const (
	dockerGzip = "application/vnd.docker.image.rootfs.diff.tar.gzip"
	dockerTar  = "application/vnd.docker.image.rootfs.diff.tar"
	foreign    = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
	encrypted  = "application/vnd.oci.image.layer.v1.tar+gzip+encrypted"
)

// part is one layer of an image: its blob, and what the config says it unpacks to.
type part struct {
	mediaType string
	blob      []byte
	content   []byte
}

func (p part) descriptor() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: p.mediaType, Digest: digest.FromBytes(p.blob), Size: int64(len(p.blob))}
}

// compose makes an image of layers.
func compose(t testing.TB, layers ...part) image.Image {
	t.Helper()
	img, err := image.New(parts(t, layers...))
	require.NoError(t, err)
	return img
}

func parts(t testing.TB, layers ...part) image.Parts {
	t.Helper()
	blobs := imagetest.Blobs{}
	config := ocispec.Image{Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"}}
	manifest := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	for _, l := range layers {
		blobs[l.descriptor().Digest] = l.blob
		manifest.Layers = append(manifest.Layers, l.descriptor())
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, digest.FromBytes(l.content))
	}
	p := image.Parts{
		Reference: reference.MustParse("test:1"), Platform: platform.Platform{OS: "linux", Architecture: "amd64"}, Source: blobs,
	}
	var err error
	p.Config, err = json.Marshal(config)
	require.NoError(t, err)
	manifest.Config = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromBytes(p.Config), Size: int64(len(p.Config))}
	p.Manifest, err = json.Marshal(manifest)
	require.NoError(t, err)
	p.Root = p.Manifest
	return p
}

// text is compressible content, another one for each seed.
func text(seed uint64, size int) []byte {
	words := strings.Fields("the pull of an image once is the load of it everywhere and no registry sheds what nobody asks for")
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, 0, size+100)
	for len(b) < size {
		n := r.Uint32()
		b = append(b, words[int(n>>16)%len(words)]...)
		b = strconv.AppendUint(b, uint64(n%1000), 10)
	}
	return b[:size]
}

func zip(t testing.TB, content []byte) []byte {
	return imagetest.Gzip(t, content, gzip.DefaultCompression)
}

func gzipped(t testing.TB, content []byte) part {
	return part{ocispec.MediaTypeImageLayerGzip, zip(t, content), content}
}

// spool is a Spool in a folder of its own, which is empty when all is over.
func spool(t testing.TB, o recompress.Options) *recompress.Spool {
	t.Helper()
	o.Dir = t.TempDir()
	s := recompress.New(o)
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		left, err := os.ReadDir(o.Dir)
		require.NoError(t, err)
		require.Empty(t, left)
	})
	return s
}

// claimed is img, recompressed.
func claimed(t testing.TB, s *recompress.Spool, img image.Image) image.Image {
	t.Helper()
	claim := s.Claim(img)
	t.Cleanup(func() { require.NoError(t, claim.Close()) })
	got, err := claim.Image(t.Context(), nil)
	require.NoError(t, err)
	return got
}

func blobOf(t testing.TB, img image.Image, i int) []byte {
	t.Helper()
	rc, err := img.Layer(t.Context(), i)
	require.NoError(t, err)
	defer rc.Close()
	data, err := io.ReadAll(rc)
	require.NoError(t, err)
	return data
}

func unzstd(t testing.TB, data []byte) []byte {
	t.Helper()
	r, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer r.Close()
	content, err := r.DecodeAll(data, nil)
	require.NoError(t, err)
	return content
}

func TestLayersAreTheSameContentInZstd(t *testing.T) {
	t.Parallel()
	plain, packed := text(1, 300_000), text(2, 1_000_000)
	for name, p := range map[string]part{
		"gzip":                            gzipped(t, packed),
		"Docker's gzip":                   {dockerGzip, zip(t, packed), packed},
		"a tar":                           {ocispec.MediaTypeImageLayer, plain, plain},
		"Docker's tar":                    {dockerTar, plain, plain},
		"a tar that says it is gzip":      {ocispec.MediaTypeImageLayerGzip, plain, plain},
		"zstd that says it is gzip":       {ocispec.MediaTypeImageLayerGzip, imagetest.Zstd(packed), packed},
		"gzip in several members":         {dockerGzip, append(zip(t, packed[:1000]), zip(t, packed[1000:])...), packed},
		"nothing, in gzip":                gzipped(t, nil),
		"nothing at all":                  {ocispec.MediaTypeImageLayer, []byte{}, []byte{}},
		"one byte":                        {ocispec.MediaTypeImageLayer, []byte{0x1f}, []byte{0x1f}},
		"exactly one block":               gzipped(t, text(3, 128<<10)),
		"exactly two blocks":              gzipped(t, text(3, 256<<10)),
		"more than the window":            gzipped(t, text(4, 3<<20)),
		"what can't be compressed at all": gzipped(t, zip(t, text(5, 1<<20))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exact := compose(t, p)
			got := claimed(t, spool(t, recompress.Options{}), exact)
			require.True(t, got.Recompressed())
			require.Equal(t, exact.Root(), got.Root())
			require.Equal(t, exact.Manifest(), got.Manifest())
			require.Equal(t, exact.Config(), got.Config())
			require.Equal(t, ocispec.MediaTypeImageLayerZstd, got.Layers()[0].Descriptor.MediaType)
			require.Equal(t, exact.Layers()[0].DiffID, got.Layers()[0].DiffID)
			blob := blobOf(t, got, 0)
			require.True(t, bytes.Equal(p.content, unzstd(t, blob)))
			require.NoError(t, image.Verify(t.Context(), got))
			var h zstd.Header
			require.NoError(t, h.Decode(blob))
			require.True(t, h.HasCheckSum)
			require.LessOrEqual(t, h.WindowSize, uint64(2<<20))
			atHand, err := got.AtHand(t.Context())
			require.NoError(t, err)
			require.True(t, atHand)
		})
	}
}

// Where the system lets an open file go without its name, nothing is left of one, however the process ends.
func TestFilesHaveNoNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := recompress.New(recompress.Options{Dir: dir})
	img := claimed(t, s, compose(t, gzipped(t, text(1, 1000))))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.Empty(t, left)
	}
	require.NoError(t, image.Verify(t.Context(), img))
	require.NoError(t, s.Close())
}

func TestWhatIsNoTarOrGzipStaysAsItIs(t *testing.T) {
	t.Parallel()
	content := text(1, 50_000)
	zipped := zip(t, content)
	for _, p := range []part{
		{ocispec.MediaTypeImageLayerZstd, imagetest.Zstd(content), content},
		{foreign, zipped, content},
		{encrypted, zipped, content},
		{"application/vnd.example.layer", zipped, content},
	} {
		t.Run(p.mediaType, func(t *testing.T) {
			t.Parallel()
			alone := compose(t, p)
			claim := spool(t, recompress.Options{}).Claim(alone)
			require.Zero(t, claim.Size())
			got, err := claim.Image(t.Context(), nil)
			require.NoError(t, err)
			require.False(t, got.Recompressed())
			require.NoError(t, claim.Close())

			mixed := claimed(t, spool(t, recompress.Options{}), compose(t, gzipped(t, content[1:]), p))
			require.True(t, mixed.Recompressed())
			require.Equal(t, p.descriptor(), mixed.Layers()[1].Descriptor)
			require.Equal(t, p.blob, blobOf(t, mixed, 1))
			require.Equal(t, content[1:], unzstd(t, blobOf(t, mixed, 0)))
			atHand, err := mixed.AtHand(t.Context())
			require.NoError(t, err)
			require.False(t, atHand, "nobody has brought the other layer to hand")
		})
	}
}

func TestArtifactsAndImagesWithoutLayersStayAsTheyAre(t *testing.T) {
	t.Parallel()
	s := spool(t, recompress.Options{})
	for _, o := range []imagetest.Options{{Artifact: true, Layers: 2}, {Layers: -1}} {
		img := imagetest.New(t, o)
		require.Equal(t, img.Carrier(), claimed(t, s, img).Carrier())
	}
}

// The same layers give the same bytes, whatever the number of cores, however the blob arrives, and whatever the encoder was
// used for before. That another version of the library changes them is seen here.
func TestSameLayersGiveTheSameBytes(t *testing.T) {
	var got strings.Builder
	sizes := []int{0, 1000, 128 << 10, 3 << 20}
	for _, workers := range []int{1, 4} {
		before := runtime.GOMAXPROCS(workers)
		got.Reset()
		s := spool(t, recompress.Options{Workers: workers})
		for i, size := range append(sizes, sizes...) { // in encoders that are used again
			p := gzipped(t, text(uint64(i%len(sizes)), size))
			claim := s.Claim(compose(t, p))
			img, err := claim.Image(t.Context(), pieces(p.blob, 1+i*777))
			require.NoError(t, err)
			fmt.Fprintf(&got, "%d bytes: %s %d\n", size, img.Layers()[0].Descriptor.Digest, img.Layers()[0].Descriptor.Size)
			require.NoError(t, claim.Close())
		}
		runtime.GOMAXPROCS(before)
		goldentest.Equal(t, "testdata/bytes.golden", got.String())
	}
}

// pieces hands a blob over in pieces of n bytes.
func pieces(blob []byte, n int) recompress.Read {
	return func(_ context.Context, _ int, use func(io.Reader) error) error {
		return use(&piecewise{bytes.NewReader(blob), n})
	}
}

type piecewise struct {
	r io.Reader
	n int
}

func (p *piecewise) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.n)]) }

func TestOtherContentThanTheConfigSaysIsRefused(t *testing.T) {
	t.Parallel()
	content := text(1, 200_000)
	zipped := zip(t, content)
	spoiled := bytes.Clone(zipped)
	spoiled[len(spoiled)/2] ^= 1
	for name, c := range map[string]struct {
		part part
		want string
	}{
		"another content":    {part{dockerGzip, zipped, content[1:]}, "its content is " + digest.FromBytes(content).String()},
		"no gzip inside":     {part{dockerGzip, spoiled, content}, "unpacking it: "},
		"cut gzip":           {part{dockerGzip, zipped[:len(zipped)-9], content}, "unpacking it: unexpected EOF"},
		"more behind it":     {part{dockerGzip, append(bytes.Clone(zipped), "more"...), content}, "unpacking it: "},
		"another tar":        {part{dockerTar, content, zipped}, "its content is "},
		"no zstd inside":     {part{dockerGzip, imagetest.Zstd(content)[:1000], content}, "unpacking it: "},
		"too large content":  {gzipped(t, make([]byte, 3<<20)), "it unpacks to more than 2000000 bytes"},
		"too large tar":      {part{dockerTar, make([]byte, 2_000_001), make([]byte, 2_000_001)}, "it unpacks to more than 2000000 bytes"},
		"a window too large": {part{dockerGzip, wide(t, content), content}, "unpacking it: window size exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := spool(t, recompress.Options{MaxContent: 2_000_000}).Claim(compose(t, gzipped(t, text(9, 10)), c.part))
			_, err := claim.Image(t.Context(), nil)
			require.ErrorIs(t, err, image.ErrVerify)
			require.ErrorContains(t, err, "recompressing test:1: layer "+digest.FromBytes(c.part.blob).String())
			require.ErrorContains(t, err, c.want)
			require.NotErrorIs(t, err, image.ErrRead, "the layer itself was read")
			require.NoError(t, claim.Close())
		})
	}
}

// wide is a frame that asks its reader for 512 MB.
func wide(t testing.TB, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithWindowSize(512<<20), zstd.WithSingleSegment(false), zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	for range 2 {
		_, err = w.Write(content)
		require.NoError(t, err)
		require.NoError(t, w.Flush())
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestContentAtTheBoundIsTaken(t *testing.T) {
	t.Parallel()
	content := make([]byte, 2_000_000)
	img := claimed(t, spool(t, recompress.Options{MaxContent: 2_000_000}), compose(t, gzipped(t, content)))
	require.Less(t, img.Layers()[0].Descriptor.Size, int64(1_000))
}

// A blob that arrived wrong is no fault of the image's: whoever reads it may come again with the right one.
func TestBlobThatArrivesWrongIsReadAgain(t *testing.T) {
	t.Parallel()
	content := text(1, 400_000)
	right := zip(t, content)
	wrong := append(bytes.Clone(right[:len(right)/2]), bytes.Repeat([]byte("<html>"), 50_000)...)
	mismatch := errors.New("the registry sent something else")
	tries := 0
	read := func(_ context.Context, _ int, use func(io.Reader) error) error {
		for range 2 {
			tries++
			if err := use(io.MultiReader(bytes.NewReader(wrong), failing{mismatch})); !errors.Is(err, mismatch) {
				return err
			}
		}
		tries++
		return use(bytes.NewReader(right))
	}
	exact := compose(t, gzipped(t, content))
	claim := spool(t, recompress.Options{}).Claim(exact)
	got, err := claim.Image(t.Context(), read)
	require.NoError(t, err)
	require.Equal(t, 3, tries)
	require.Equal(t, content, unzstd(t, blobOf(t, got, 0)))
	require.Equal(t, claimed(t, spool(t, recompress.Options{}), exact).Layers(), got.Layers(), "nothing is left of the first tries")
	require.NoError(t, claim.Close())
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// counted counts the blobs that are opened.
func counted(img image.Image, opened *atomic.Int32) image.Image {
	return img.Via(func(s image.Source) image.Source { return &counting{s, opened} })
}

type counting struct {
	image.Source
	opened *atomic.Int32
}

func (c *counting) Blob(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	c.opened.Add(1)
	return c.Source.Blob(ctx, d)
}

func TestSharedLayersAreRecompressedOnceAndKeptForTheLast(t *testing.T) {
	t.Parallel()
	base, one, two := gzipped(t, text(1, 500_000)), gzipped(t, text(2, 1000)), gzipped(t, text(3, 1000))
	var opened atomic.Int32
	s := spool(t, recompress.Options{Workers: 2})
	first := s.Claim(counted(compose(t, base, one, base), &opened))
	second := s.Claim(counted(compose(t, base, two), &opened))
	require.Equal(t, int64(len(base.blob)+len(one.blob)), first.Size())

	images := make([]image.Image, 2)
	var both sync.WaitGroup
	for i, claim := range []*recompress.Claim{first, second} {
		both.Go(func() {
			var err error
			images[i], err = claim.Image(t.Context(), nil)
			require.NoError(t, err)
		})
	}
	both.Wait()
	require.Equal(t, int32(3), opened.Load())
	require.Equal(t, images[0].Layers()[0], images[1].Layers()[0])
	require.Equal(t, images[0].Layers()[0], images[0].Layers()[2])

	require.NoError(t, first.Close())
	require.NoError(t, first.Close(), "twice is once")
	require.NoError(t, image.Verify(t.Context(), images[1]))
	require.ErrorIs(t, image.Verify(t.Context(), images[0]), os.ErrClosed, "what only the first had is gone")
	require.NoError(t, second.Close())
	require.ErrorIs(t, image.Verify(t.Context(), images[1]), os.ErrClosed)
}

// Whoever waits for a layer that another one fails to recompress makes it for itself.
func TestFailureOfOneIsNotTheOthers(t *testing.T) {
	t.Parallel()
	img := compose(t, gzipped(t, text(1, 1000)))
	s := spool(t, recompress.Options{})
	broken, whole := s.Claim(img), s.Claim(img)
	begun, gone := make(chan struct{}), errors.New("connection reset")
	var fails errorGroup
	fails.Go(func() error {
		_, err := broken.Image(t.Context(), func(context.Context, int, func(io.Reader) error) error {
			close(begun)
			return gone
		})
		return err
	})
	<-begun
	got, err := whole.Image(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, image.Verify(t.Context(), got))
	require.ErrorIs(t, fails.Wait(), gone)
	require.NoError(t, broken.Close())
	require.NoError(t, image.Verify(t.Context(), got))
	require.NoError(t, whole.Close())
}

// errorGroup is one call in the background.
type errorGroup struct {
	wait sync.WaitGroup
	err  error
}

func (g *errorGroup) Go(f func() error) { g.wait.Go(func() { g.err = f() }) }
func (g *errorGroup) Wait() error       { g.wait.Wait(); return g.err }

func TestCancelEndsTheWorkAndLeavesNothing(t *testing.T) {
	t.Parallel()
	img := compose(t, gzipped(t, make([]byte, 100_000)), gzipped(t, text(2, 100_000)))
	s := spool(t, recompress.Options{Workers: 1})
	claim := s.Claim(img)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := errors.New("interrupted")
	_, err := claim.Image(ctx, func(ctx context.Context, i int, use func(io.Reader) error) error {
		return use(endless{cancel})
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, image.ErrVerify)

	ctx, end := context.WithCancelCause(t.Context())
	end(stopped)
	_, err = claim.Image(ctx, nil)
	require.ErrorIs(t, err, stopped)
	require.NoError(t, claim.Close())
	_, err = s.Claim(img).Image(t.Context(), nil)
	require.NoError(t, err, "what was cancelled can be asked for again")
}

// endless is a tar that never ends, and whose reader is told to stop once it has begun.
type endless struct{ stop func() }

func (e endless) Read(p []byte) (int, error) {
	e.stop()
	return len(p), nil
}

func TestFullDiskIsNoFaultOfTheImage(t *testing.T) {
	t.Parallel()
	s := recompress.New(recompress.Options{Dir: filepath.Join(t.TempDir(), "absent")})
	claim := s.Claim(compose(t, gzipped(t, text(1, 1000))))
	_, err := claim.Image(t.Context(), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NotErrorIs(t, err, image.ErrVerify)
	require.NoError(t, claim.Close())
	require.NoError(t, s.Close())
}

func TestClosedSpoolGivesNothing(t *testing.T) {
	t.Parallel()
	s := spool(t, recompress.Options{})
	claim := s.Claim(compose(t, gzipped(t, text(1, 1000))))
	got, err := claim.Image(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.ErrorIs(t, image.Verify(t.Context(), got), os.ErrClosed)
	_, err = claim.Image(t.Context(), nil)
	require.ErrorContains(t, err, "the claim is closed")
}

// FuzzRecompress gives a layer any bytes under any digest: what is accepted unpacks to what the config says.
func FuzzRecompress(f *testing.F) {
	content := text(1, 3000)
	f.Add(zip(f, content), content, true)
	f.Add(content, content, false)
	f.Add(imagetest.Zstd(content), content, true)
	f.Add(append(zip(f, content[:100]), zip(f, content[100:])...), content, true)
	f.Add([]byte{}, []byte{}, false)
	f.Add([]byte{0x1f, 0x8b, 8}, []byte{}, true)
	f.Fuzz(func(t *testing.T, blob, content []byte, gz bool) {
		p := part{ocispec.MediaTypeImageLayer, blob, content}
		if gz {
			p.mediaType = ocispec.MediaTypeImageLayerGzip
		}
		exact := compose(t, p)
		claim := spool(t, recompress.Options{MaxContent: 1 << 20}).Claim(exact)
		got, err := claim.Image(t.Context(), nil)
		if err != nil {
			require.ErrorIs(t, err, image.ErrVerify)
		} else {
			require.Equal(t, content, append([]byte{}, unzstd(t, blobOf(t, got, 0))...))
			require.Equal(t, exact.Layers()[0].DiffID, got.Layers()[0].DiffID)
		}
		require.NoError(t, claim.Close())
	})
}
