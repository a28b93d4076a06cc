package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
)

// onBase is an image that begins with so many layers of the seed, and has more of its own.
func onBase(t *testing.T, seed uint64, base, own int) image.Image {
	t.Helper()
	p := imagetest.Parts(t, imagetest.Options{Layers: base, LayerSize: 1000, Seed: seed})
	more := imagetest.Parts(t, imagetest.Options{Layers: own, LayerSize: 1000, Seed: uint64(100*base + own)})
	var manifest, added ocispec.Manifest
	var config, addedConfig ocispec.Image
	for data, into := range map[*[]byte]any{&p.Manifest: &manifest, &more.Manifest: &added, &p.Config: &config, &more.Config: &addedConfig} {
		require.NoError(t, json.Unmarshal(*data, into))
	}
	for d, blob := range more.Source.(imagetest.Blobs) {
		p.Source.(imagetest.Blobs)[d] = blob
	}
	manifest.Layers = append(manifest.Layers, added.Layers...)
	config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, addedConfig.RootFS.DiffIDs...)
	var err error
	p.Config, err = json.Marshal(config)
	require.NoError(t, err)
	manifest.Config.Digest, manifest.Config.Size = digest.FromBytes(p.Config), int64(len(p.Config))
	p.Manifest, err = json.Marshal(manifest)
	require.NoError(t, err)
	p.Root = bytes.Clone(p.Manifest)
	img, err := image.New(p)
	require.NoError(t, err)
	return img
}

// bringing is a daemon that takes a second for each layer, and says so if it tells.
type bringing struct {
	bases
	tells bool
}

// bring brings an image and gives when it began.
func (b *bringing) bring(t *testing.T, img image.Image, there bool) time.Time {
	t.Helper()
	c, err := b.enter(t.Context(), img)
	if err != nil {
		t.Error(err)
		return time.Time{}
	}
	began := time.Now()
	for _, l := range img.Layers() {
		time.Sleep(time.Second)
		if b.tells {
			c.unpacked(l.Descriptor.Digest.Encoded()[:12])
		}
	}
	c.leave(there)
	return began
}

// What several images begin with comes with the first, and the others go on from there, all at once.
func TestImagesWaitForTheBaseThatComesWithAnother(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tells  bool
		images [][3]int // seed of the base, its layers, and those of its own
		want   []time.Duration
	}{
		"until it is unpacked":          {true, [][3]int{{1, 4, 3}, {1, 4, 2}, {1, 4, 1}}, []time.Duration{0, 4 * time.Second, 4 * time.Second}},
		"of a daemon that does not say": {false, [][3]int{{1, 4, 3}, {1, 4, 2}, {1, 4, 1}}, []time.Duration{0, 7 * time.Second, 7 * time.Second}},
		"two common bases":              {true, [][3]int{{1, 4, 3}, {1, 4, 2}, {9, 3, 1}, {9, 3, 2}}, []time.Duration{0, 4 * time.Second, 0, 3 * time.Second}},
		"hardly anything in common":     {true, [][3]int{{1, 1, 9}, {1, 1, 8}}, []time.Duration{0, 0}},
		"nothing in common":             {true, [][3]int{{1, 4, 1}, {2, 4, 1}}, []time.Duration{0, 0}},
		"all of it":                     {true, [][3]int{{1, 4, 2}, {1, 4, 0}}, []time.Duration{0, 4 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &bringing{tells: test.tells}
				start := time.Now()
				for i, of := range test.images {
					img := onBase(t, uint64(of[0]), of[1], of[2])
					go func() {
						time.Sleep(time.Duration(i)) // in this order
						if got := b.bring(t, img, true).Sub(start).Truncate(time.Second); got != test.want[i] {
							t.Errorf("image %d began after %s, want %s", i, got, test.want[i])
						}
					}()
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// A base that is there is not waited for again, whoever else has it; one that did not come is.
func TestABaseThatCameIsNotWaitedForAgain(t *testing.T) {
	t.Parallel()
	for came, want := range map[bool]time.Duration{true: 0, false: 6 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			b := &bringing{}
			b.bring(t, onBase(t, 1, 4, 1), came)
			start := time.Now()
			go b.bring(t, onBase(t, 1, 4, 2), true)
			time.Sleep(time.Nanosecond)
			require.Equal(t, want, b.bring(t, onBase(t, 1, 4, 3), true).Sub(start).Truncate(time.Second))
			time.Sleep(time.Minute)
		})
	}
}

func TestWaitingForABaseEndsWithTheLoad(t *testing.T) {
	t.Parallel()
	var b bases
	_, err := b.enter(t.Context(), onBase(t, 1, 4, 3))
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	_, err = b.enter(ctx, onBase(t, 1, 4, 2))
	require.ErrorIs(t, err, why)
}

// What an engine says of layers that the image does not have is nothing.
func TestUnknownLayersAreNotUnpacked(t *testing.T) {
	t.Parallel()
	var b bases
	c, err := b.enter(t.Context(), onBase(t, 1, 2, 1))
	require.NoError(t, err)
	c.unpacked("")
	c.unpacked("ffffffffffff")
	require.Empty(t, b.there)
	c.unpacked(c.layers[1].Descriptor.Digest.Encoded()[:12])
	require.Len(t, b.there, 2, "with all below")
}
