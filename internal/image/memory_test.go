//go:build linux

package image_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
)

// memoryChild makes TestMemoryIsFlat the process that is measured; its value is the size of the image in bytes.
const memoryChild = "IMAGE_TEST_MEMORY"

// An image of 1.5 GB is written and read within 64 MB resident. Outside the end-to-end suite it is one of 200 MB.
func TestMemoryIsFlat(t *testing.T) {
	if size := os.Getenv(memoryChild); size != "" {
		passThrough(t, size)
		return
	}
	t.Parallel()
	size := 200 << 20
	if os.Getenv("PULLONCE_E2E") == "1" {
		size = 1500 << 20
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
	require.Less(t, peak, 64<<10, "kB resident at the peak")
	t.Logf("an image of %d MB was written, verified and written again with %d MB resident at the peak", size>>20, peak>>10)
}

// peakLine is the high-water mark of the resident memory in /proc/self/status.
var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// passThrough writes an image to a file in the working directory, reads the whole of it, and writes what it read once
// more, as a target is given it.
func passThrough(t *testing.T, size string) {
	n, err := strconv.ParseInt(size, 10, 64)
	require.NoError(t, err)
	img := synthetic(t, 3, n/3)
	f, err := os.Create("image.tar")
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, image.Encode(t.Context(), f, img))
	read, err := image.VerifyArchive(t.Context(), f, image.EncodedSize(img))
	require.NoError(t, err)
	require.NoError(t, image.Encode(t.Context(), io.Discard, read))
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	fmt.Printf("%s\n", peakLine.Find(status))
}

// synthetic is an image with layers of size bytes each, which are made as they are read.
func synthetic(t *testing.T, layers int, size int64) image.Image {
	t.Helper()
	seeds := map[digest.Digest]byte{}
	p := remade(t, imagetest.Parts(t, imagetest.Options{Layers: -1}), func(m *ocispec.Manifest, c *ocispec.Image) {
		for i := range layers {
			sum, err := digest.SHA256.FromReader(io.LimitReader(pattern(i), size))
			require.NoError(t, err)
			seeds[sum] = byte(i)
			m.Layers = append(m.Layers, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: sum, Size: size})
			c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, sum)
		}
	})
	p.Source = imagetest.Source(func(_ context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(pattern(seeds[d.Digest]), d.Size)), nil
	})
	img, err := image.New(p)
	require.NoError(t, err)
	return img
}

// pattern is an endless reader of one byte.
type pattern byte

func (b pattern) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}
