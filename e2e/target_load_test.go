//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/target"
)

// Each kind of image, loaded into an empty place, answers to its reference; a second load sends and reads nothing; the
// same image under another name is named and not sent.
func TestTargetsLoad(t *testing.T) {
	forEachPlace(t, func(t *testing.T, p place) {
		for name, of := range map[string]func(t *testing.T, ref string) image.Image{
			"plain":          func(t *testing.T, ref string) image.Image { return plain(t, ref, "plain") },
			"indexed":        func(t *testing.T, ref string) image.Image { return indexed(t, ref, "indexed") },
			"zstd":           zstdLayers,
			"hundred-layers": hundredLayers,
		} {
			t.Run(name, func(t *testing.T) {
				img, opened := counted(of(t, "e2e.test/"+name+":1"))
				result, err := p.target(t).Load(t.Context(), img)
				require.NoError(t, err)
				require.Equal(t, target.Loaded, result.Outcome)
				require.Positive(t, result.Sent)
				require.Empty(t, result.Replaced)
				require.NoError(t, p.create(t, img.Reference().String()))

				opened.Store(0)
				result, err = p.target(t).Load(t.Context(), img)
				require.NoError(t, err)
				require.Equal(t, target.Result{Outcome: target.Present}, result)

				renamed, _ := counted(of(t, "e2e.test/renamed-"+name+":2"))
				result, err = p.target(t).Load(t.Context(), renamed)
				require.NoError(t, err)
				require.Equal(t, target.Result{Outcome: target.Tagged}, result)
				require.NoError(t, p.create(t, renamed.Reference().String()))
				require.Zero(t, opened.Load(), "layers were read")
			})
		}
	})
}

// counted is img with the layers counted that are opened.
func counted(img image.Image) (image.Image, *atomic.Int64) {
	var opened atomic.Int64
	return img.Via(func(s image.Source) image.Source {
		return sourceFunc(func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
			opened.Add(1)
			return s.Blob(ctx, d)
		})
	}), &opened
}

// sourceFunc is a source that is a function.
type sourceFunc func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error)

// Blob implements image.Source.
func (f sourceFunc) Blob(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	return f(ctx, d)
}

// Another image under the name is replaced, and told of.
func TestTargetsReplace(t *testing.T) {
	forEachPlace(t, func(t *testing.T, p place) {
		const ref = "e2e.test/moving:1"
		old, replacement := plain(t, ref, "old"), indexed(t, ref, "new")
		_, err := p.target(t).Load(t.Context(), old)
		require.NoError(t, err)
		result, err := p.target(t).Load(t.Context(), replacement)
		require.NoError(t, err)
		require.Equal(t, target.Loaded, result.Outcome)
		require.Contains(t, []string{old.Root().Digest.String(), old.Config().Digest.String()}, result.Replaced)
		require.NoError(t, p.create(t, ref))

		result, err = p.target(t).Load(t.Context(), replacement)
		require.NoError(t, err)
		require.Equal(t, target.Result{Outcome: target.Present}, result)
	})
}

// Two images with a layer in common are both whole, and stay so when one goes.
func TestTargetsShareLayers(t *testing.T) {
	forEachPlace(t, func(t *testing.T, p place) {
		shared := base(t)
		first, second := layered(t, ociTypes, shared, "first"), layered(t, ociTypes, shared, "second")
		for i, img := range []image.Image{loadable(t, "e2e.test/first:1", first, first), loadable(t, "e2e.test/second:1", second, second)} {
			result, err := p.target(t).Load(t.Context(), img)
			require.NoError(t, err)
			require.Equal(t, target.Loaded, result.Outcome, i)
		}
		require.NoError(t, p.create(t, "e2e.test/first:1"))
		require.NoError(t, p.create(t, "e2e.test/second:1"))
	})
}

// breaks is how many loads are broken, each at a random byte of the layers.
const breaks = 10

// A load that breaks leaves no name behind, and no other image without its own.
func TestTargetsBrokenLoad(t *testing.T) {
	forEachPlace(t, func(t *testing.T, p place) {
		const ref = "e2e.test/broken:1"
		_, err := p.target(t).Load(t.Context(), plain(t, ref, "old"))
		require.NoError(t, err)
		before := p.names(t)
		random := seeded(t)
		whole := layered(t, ociTypes, base(t), "a", "b", "c")
		img := loadable(t, ref, whole, whole)
		for i := range breaks {
			at := random.Int64N(img.Size())
			broken := errors.New("the source broke")
			_, err := p.target(t).Load(t.Context(), breaking(img, at, broken))
			require.ErrorIs(t, err, broken, "break %d, at byte %d", i, at)
			require.ElementsMatch(t, before, p.names(t), "break %d, at byte %d", i, at)
			require.NoError(t, p.create(t, ref))
		}
		result, err := p.target(t).Load(t.Context(), img)
		require.NoError(t, err)
		require.Equal(t, target.Loaded, result.Outcome)
		require.NoError(t, p.create(t, ref))
	})
}

// breaking is img whose layers can be read up to some byte of them all, at most their last.
func breaking(img image.Image, at int64, cause error) image.Image {
	start := map[digest.Digest]int64{}
	var size int64
	for _, l := range img.Layers() {
		start[l.Descriptor.Digest] = size
		size += l.Descriptor.Size
	}
	at = min(at, size-1)
	return img.Via(func(s image.Source) image.Source {
		return sourceFunc(func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
			rc, err := s.Blob(ctx, d)
			left := at - start[d.Digest]
			if err != nil || left >= d.Size {
				return rc, err
			}
			return struct {
				io.Reader
				io.Closer
			}{io.MultiReader(io.LimitReader(rc, max(0, left)), failingReader{cause}), rc}, nil
		})
	})
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// A disk that is too small is told of before anything is read, with the numbers.
func TestTargetsDiskTooSmall(t *testing.T) {
	gate(t)
	for _, e := range engines() {
		t.Run("containerd-"+e.version(), func(t *testing.T) {
			p := e.startContainerdOn(t, 24<<20)
			img, opened := counted(large(t, "e2e.test/large:1"))
			_, err := p.target(t).Load(t.Context(), img)
			require.ErrorContains(t, err, "there would be no space left on device: at least ")
			require.ErrorContains(t, err, " MB are free at "+p.dir)
			require.Zero(t, opened.Load())
			require.Empty(t, p.names(t))
		})
	}
}

// Images with layers in common can be loaded at once.
func TestTargetsLoadAtOnce(t *testing.T) {
	forEachPlace(t, func(t *testing.T, p place) {
		dir := tempDir(t)
		shared := []layerFile{base(t)}
		for i := range 3 {
			layer, err := writeLayer(filepath.Join(dir, fmt.Sprint(i)), file{name: fmt.Sprint("shared", i), mode: 0o644, size: 8 << 20, data: newMixed(uint64(i))})
			require.NoError(t, err)
			shared = append(shared, layer)
		}
		var images []image.Image
		for i := range 4 {
			own, err := writeLayer(filepath.Join(dir, fmt.Sprint("own", i)), text("etc/version", fmt.Sprint(i)))
			require.NoError(t, err)
			img, err := assemble(ociTypes, host, append(slices.Clone(shared), own)...)
			require.NoError(t, err)
			images = append(images, loadable(t, fmt.Sprintf("e2e.test/at-once:%d", i), img, img))
		}
		into := p.target(t)
		_, err := into.Platform(t.Context())
		require.NoError(t, err)
		var loads errgroup.Group
		for _, img := range images {
			loads.Go(func() error {
				_, err := into.Load(t.Context(), img)
				return err
			})
		}
		require.NoError(t, loads.Wait())
		for _, img := range images {
			require.NoError(t, p.create(t, img.Reference().String()))
		}
	})
}
