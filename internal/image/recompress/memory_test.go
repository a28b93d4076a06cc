//go:build linux

package recompress_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/recompress"
)

// memoryChild makes TestMemoryIsFlat the process that is measured; its value is the size of a layer's content in bytes.
const memoryChild = "RECOMPRESS_TEST_MEMORY"

// Four images at a time, with four layers each, are recompressed and written within 96 MB resident.
func TestMemoryIsFlat(t *testing.T) {
	if size := os.Getenv(memoryChild); size != "" {
		recompressMuch(t, size)
		return
	}
	t.Parallel()
	size := 8 << 20 / raceFactor
	if os.Getenv("PULLONCE_E2E") == "1" {
		size = 64 << 20
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemoryIsFlat$")
	child.Dir = t.TempDir()
	child.Env = append(os.Environ(), memoryChild+"="+strconv.Itoa(size))
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)

	found := peakLine.FindSubmatch(out)
	require.NotNil(t, found, "%s", out)
	peak, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	require.Less(t, peak, 96<<10*raceFactor, "kB resident at the peak")
	t.Logf("16 layers of %d MB in 4 images were recompressed with %d MB resident at the peak", size>>20, peak>>10)
}

// peakLine is the high-water mark of the resident memory in /proc/self/status.
var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

func recompressMuch(t *testing.T, size string) {
	n, err := strconv.ParseInt(size, 10, 64)
	require.NoError(t, err)
	s := recompress.New(recompress.Options{Dir: ".", Workers: 4}) // as many as there are by default on any machine
	var group errgroup.Group
	for i := range 4 {
		group.Go(func() error {
			claim := s.Claim(synthetic(t, uint64(4*i), n))
			img, err := claim.Image(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, image.Encode(t.Context(), io.Discard, img))
			return claim.Close()
		})
	}
	require.NoError(t, group.Wait())
	require.NoError(t, s.Close())
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	fmt.Printf("%s\n", peakLine.Find(status))
}

// synthetic is an image with four layers whose contents have size bytes, which are made as they are read.
func synthetic(t *testing.T, seed uint64, size int64) image.Image {
	t.Helper()
	seeds := map[digest.Digest]uint64{}
	p := parts(t)
	var m ocispec.Manifest
	var c ocispec.Image
	require.NoError(t, json.Unmarshal(p.Manifest, &m))
	require.NoError(t, json.Unmarshal(p.Config, &c))
	for i := range uint64(4) {
		content, blob := digest.SHA256.Digester(), digest.SHA256.Digester()
		counted := &countingWriter{w: blob.Hash()}
		require.NoError(t, generate(content.Hash(), counted, seed+i, size))
		seeds[blob.Digest()] = seed + i
		m.Layers = append(m.Layers, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: blob.Digest(), Size: counted.n})
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, content.Digest())
	}
	var err error
	p.Config, err = json.Marshal(c)
	require.NoError(t, err)
	m.Config.Digest, m.Config.Size = digest.FromBytes(p.Config), int64(len(p.Config))
	p.Manifest, err = json.Marshal(m)
	require.NoError(t, err)
	p.Root = p.Manifest
	p.Source = generated{seeds, size}
	img, err := image.New(p)
	require.NoError(t, err)
	return img
}

// generate writes half-random content to plain, and the same in gzip to zipped.
func generate(plain, zipped io.Writer, seed uint64, size int64) error {
	out := bufio.NewWriterSize(zipped, 64<<10)
	zw, err := gzip.NewWriterLevel(out, gzip.HuffmanOnly)
	if err != nil {
		return err
	}
	r := rand.NewChaCha8([32]byte{byte(seed)})
	block := make([]byte, 64<<10)
	for ; size > 0; size -= int64(len(block)) {
		if _, err := r.Read(block[:len(block)/2]); err != nil {
			return err
		}
		if _, err := plain.Write(block); err != nil {
			return err
		}
		if _, err := zw.Write(block); err != nil {
			return err
		}
	}
	if err := zw.Close(); err != nil {
		return err
	}
	return out.Flush()
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return c.w.Write(p)
}

// generated gives blobs that are made as they are read.
type generated struct {
	seeds map[digest.Digest]uint64
	size  int64
}

func (g generated) Blob(_ context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(generate(io.Discard, w, g.seeds[d.Digest], g.size)) }()
	return r, nil
}
