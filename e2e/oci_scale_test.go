//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	access "github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/store/oci"
)

// relatives are n images on some bases, each with three layers of the base and one of its own, and keys for them.
func relatives(t *testing.T, n, bases, layerSize int) (images []image.Image, keys []string) {
	t.Helper()
	for i := range n {
		base := imagetest.Parts(t, imagetest.Options{Layers: 3, LayerSize: layerSize, Seed: uint64(1000 * (i % bases))})
		own := imagetest.Parts(t, imagetest.Options{Reference: fmt.Sprintf("relative:%d", i), LayerSize: layerSize, Seed: uint64(100_000 + i)})
		images = append(images, onTop(t, base, own))
		keys = append(keys, fmt.Sprintf("pullonce-v1-relative-linux-amd64-%016x", i))
	}
	return images, keys
}

// onTop is an image with the layers of two.
func onTop(t *testing.T, base, own image.Parts) image.Image {
	t.Helper()
	var configs [2]ocispec.Image
	var manifests [2]ocispec.Manifest
	blobs := imagetest.Blobs{}
	for i, p := range []image.Parts{base, own} {
		require.NoError(t, json.Unmarshal(p.Config, &configs[i]))
		require.NoError(t, json.Unmarshal(p.Manifest, &manifests[i]))
		maps.Copy(blobs, p.Source.(imagetest.Blobs))
	}
	configs[1].RootFS.DiffIDs = append(configs[0].RootFS.DiffIDs, configs[1].RootFS.DiffIDs...)
	manifests[1].Layers = append(manifests[0].Layers, manifests[1].Layers...)
	var err error
	own.Config, err = json.Marshal(configs[1])
	require.NoError(t, err)
	manifests[1].Config.Digest, manifests[1].Config.Size = digest.FromBytes(own.Config), int64(len(own.Config))
	own.Manifest, err = json.Marshal(manifests[1])
	require.NoError(t, err)
	own.Root, own.Source = own.Manifest, blobs
	img, err := image.New(own)
	require.NoError(t, err)
	return img
}

// Forty images that share layers are sent and stored for what is new in each.
func TestRegistryStoresSharedLayersOnce(t *testing.T) {
	forEachBrand(t, func(t *testing.T, b brand) {
		images, keys := relatives(t, 40, 4, 1<<20)
		d := b.start(t)
		f := startFront(t, d)
		s := openDepot(t, f.addr)
		var sum, own int64
		seen := map[string]bool{}
		for _, img := range images {
			sum += img.Size()
			for _, l := range img.Layers() {
				if !seen[l.Descriptor.Digest.String()] {
					seen[l.Descriptor.Digest.String()] = true
					own += l.Descriptor.Size
				}
			}
		}
		var group errgroup.Group
		group.SetLimit(4)
		for i, img := range images {
			group.Go(func() error { return s.Save(t.Context(), keys[i], img) })
		}
		require.NoError(t, group.Wait())
		asked, sent, stored := len(f.take()), f.sent.Load(), treeSize(t, d.storage)
		t.Logf("%d images of %d bytes in all, %d of them in different layers: %d bytes sent in %d requests, %d stored", len(images), sum, own, sent, asked, stored)
		const documents = 40 * 16 << 10 // manifests and configs
		require.Less(t, sent, own+documents)
		require.Less(t, stored, own+2*documents)
		require.Less(t, sent, sum*2/5)

		for i, img := range images {
			require.NoError(t, s.Save(t.Context(), keys[i], img))
		}
		require.Len(t, f.take(), len(images), "a request to see that one is there")
		got, err := s.Open(t.Context(), keys[39])
		require.NoError(t, err)
		require.NoError(t, image.Verify(t.Context(), got))
	})
}

// Two hundred lanes read five images at once: none fails, and each asks once for an image and once for each layer,
// however many of the images have it.
func TestRegistryServesTwoHundredLanes(t *testing.T) {
	forEachBrand(t, func(t *testing.T, b brand) {
		const lanes, different = 200, 3 + 5
		images, keys := relatives(t, 5, 1, 100<<10)
		d := b.start(t)
		s := openDepot(t, d.addr)
		for i, img := range images {
			require.NoError(t, s.Save(t.Context(), keys[i], img))
		}
		before := d.requests(t)
		spool := tempDir(t)
		took := make([]time.Duration, lanes)
		began := time.Now()
		var group errgroup.Group
		for lane := range lanes {
			group.Go(func() error {
				defer func() { took[lane] = time.Since(began) }()
				return readAll(t.Context(), d.addr, spool, images, keys)
			})
		}
		require.NoError(t, group.Wait())
		asked := len(d.requests(t)) - len(before)
		slices.Sort(took)
		t.Logf("%d lanes, %d images: %d requests, %.1f a lane, %d a lane for look-ups; the median lane took %s, the last %s",
			lanes, len(keys), asked, float64(asked)/lanes, len(keys), took[lanes/2].Round(time.Millisecond), took[lanes-1].Round(time.Millisecond))
		require.Equal(t, lanes*(len(keys)+different), asked)
	})
}

// readAll reads images to the last byte as a lane does in a process of its own.
func readAll(ctx context.Context, addr, spool string, images []image.Image, keys []string) error {
	own, err := oci.New(oci.Options{Repository: addr + "/pullonce/cache", Registry: access.Options{SpoolDir: spool}})
	if err != nil {
		return err
	}
	defer own.Close()
	opened := make([]image.Image, len(keys))
	for i, key := range keys {
		if opened[i], err = own.Open(ctx, key); err != nil {
			return err
		}
		if err := opened[i].Is(images[i].Reference(), images[i].Platform()); err != nil {
			return err
		}
	}
	for _, img := range opened {
		if err := image.Verify(ctx, img); err != nil {
			return err
		}
	}
	return nil
}
