//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/target"
)

// thick are images that are large enough to be loaded in parts: the first layers of some 16 MiB are the same in all, and
// each has one of its own. Every other one has Docker's media types.
func thick(t *testing.T, shared int, words ...string) []image.Image {
	t.Helper()
	dir := tempDir(t)
	common := []layerFile{base(t)}
	for i := range shared {
		common = append(common, thickLayer(t, dir, fmt.Sprint("shared", i), uint64(i)))
	}
	var images []image.Image
	families := []mediaTypes{ociTypes, dockerTypes}
	for i, word := range words {
		img, err := assemble(families[i%2], host, append(common[:len(common):len(common)], thickLayer(t, dir, word, uint64(100+i)))...)
		require.NoError(t, err)
		images = append(images, loadable(t, "e2e.test/thick-"+word+":1", img, img))
	}
	return images
}

func thickLayer(t *testing.T, dir, name string, seed uint64) layerFile {
	t.Helper()
	layer, err := writeLayer(filepath.Join(dir, name), file{name: name, mode: 0o644, size: 50 << 20, data: newMixed(seed)})
	require.NoError(t, err)
	return layer
}

// An image in parts is as whole as any other, read once, and leaves no name but its own. What is there of it, as the first
// layers of another image, is not read again.
func TestTargetsLoadInParts(t *testing.T) {
	forEachPlace(t, func(t *testing.T, p place) {
		images := thick(t, 2, "first", "second")
		before := p.names(t)
		first, opened := counted(images[0])
		_, err := p.target(t).Load(t.Context(), first)
		require.NoError(t, err)
		require.EqualValues(t, len(first.Layers()), opened.Load())
		require.NoError(t, p.create(t, first.Reference().String()))
		requireNoParts(t, p)

		second, opened := counted(images[1])
		result, err := p.target(t).Load(t.Context(), second)
		require.NoError(t, err)
		require.Equal(t, target.Loaded, result.Outcome)
		require.NoError(t, p.create(t, second.Reference().String()))
		if _, podman := p.(*podmanPlace); !podman {
			require.EqualValues(t, 1, opened.Load())
			require.Less(t, result.Sent, second.Size()/2*int64(copies(p)))
		}
		p.clear(t)
		require.Empty(t, before)
	})
}

// copies is how many times a place is sent an image.
func copies(p place) int {
	if k, ok := p.(*kindPlace); ok {
		return len(k.nodes)
	}
	return 1
}

func requireNoParts(t *testing.T, p place) {
	t.Helper()
	for _, name := range p.names(t) {
		require.NotContains(t, name, "pullonce.invalid")
	}
}

// Wherever an image in parts breaks off, nothing of it has a name.
func TestTargetsBrokenParts(t *testing.T) {
	forEachPlace(t, func(t *testing.T, p place) {
		img := thick(t, 2, "broken")[0]
		before := p.names(t)
		random := seeded(t)
		for i := range 5 {
			at := random.Int64N(img.Size())
			broken := errors.New("the source broke")
			_, err := p.target(t).Load(t.Context(), breaking(img, at, broken))
			require.ErrorIs(t, err, broken, "break %d, at byte %d", i, at)
			require.ElementsMatch(t, before, p.names(t), "break %d, at byte %d", i, at)
		}
		_, err := p.target(t).Load(t.Context(), img)
		require.NoError(t, err)
		require.NoError(t, p.create(t, img.Reference().String()))
	})
}

// Images in parts that are loaded at once send what they have in common once.
func TestTargetsPartsAtOnce(t *testing.T) {
	forEachPlace(t, func(t *testing.T, p place) {
		if _, podman := p.(*podmanPlace); podman {
			return // it takes images whole
		}
		images := thick(t, 2, "one", "two", "three")
		into := p.target(t)
		opened := make([]*atomic.Int64, len(images))
		var loads errgroup.Group
		for i := range images {
			var img image.Image
			img, opened[i] = counted(images[i])
			loads.Go(func() error {
				_, err := into.Load(t.Context(), img)
				return err
			})
		}
		require.NoError(t, loads.Wait())
		for _, img := range images {
			require.NoError(t, p.create(t, img.Reference().String()))
		}
		requireNoParts(t, p)
		sum := int64(0)
		for _, n := range opened {
			sum += n.Load()
		}
		shared := len(images[0].Layers()) - 1
		require.EqualValues(t, shared+len(images), sum, "each layer once")
	})
}
