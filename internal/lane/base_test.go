package lane_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/lane"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/target"
)

// telling is a slowTarget that unpacks layers twice, or does not, and may tell after half of its second that the base is there.
type telling struct {
	*slowTarget
	twice bool
	base  int // how many layers it tells of; 0 is none
}

var _ target.Teller = telling{}

func (t telling) Twice(context.Context) bool { return t.twice }

func (t telling) LoadTelling(ctx context.Context, img image.Image, unpacked func(int)) (target.Result, error) {
	if t.base > 0 {
		time.AfterFunc(500*time.Millisecond, func() { unpacked(t.base) })
	}
	return t.Load(ctx, img)
}

// onBase is an image that begins with the layers of the seed, and has so many more of its own.
func onBase(t *testing.T, ref string, seed uint64, base, own int) image.Image {
	t.Helper()
	p := imagetest.Parts(t, imagetest.Options{Reference: ref, Layers: base, LayerSize: 1000, Seed: seed})
	more := imagetest.Parts(t, imagetest.Options{Layers: own, LayerSize: 1000, Seed: 100 + uint64(len(ref)*own) + uint64(ref[0])})
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

// What several images begin with comes with the first, and the others go on from there, all at once.
func TestImagesWaitForTheBaseThatComesWithAnother(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		twice       bool
		tells       int // layers
		concurrency int
		images      [][3]int // seed of the base, its layers, and those of its own
		want        time.Duration
	}{
		"a common base":                   {true, 0, 4, [][3]int{{1, 4, 3}, {1, 4, 2}, {1, 4, 1}, {1, 4, 1}}, 2 * time.Second},
		"once it is unpacked":             {true, 4, 4, [][3]int{{1, 4, 3}, {1, 4, 2}, {1, 4, 1}, {1, 4, 1}}, 1500 * time.Millisecond},
		"once all of it is":               {true, 3, 4, [][3]int{{1, 4, 3}, {1, 4, 2}}, 2 * time.Second},
		"as many at a time as may":        {true, 4, 2, [][3]int{{1, 4, 3}, {1, 4, 2}, {1, 4, 1}}, 2 * time.Second},
		"two common bases":                {true, 0, 4, [][3]int{{1, 4, 3}, {1, 4, 2}, {9, 4, 1}, {9, 4, 1}}, 2 * time.Second},
		"hardly anything in common":       {true, 0, 4, [][3]int{{1, 1, 9}, {1, 1, 8}, {1, 1, 7}}, time.Second},
		"nothing in common":               {true, 0, 4, [][3]int{{1, 4, 1}, {2, 4, 1}, {3, 4, 1}}, time.Second},
		"a target that unpacks once":      {false, 0, 4, [][3]int{{1, 4, 3}, {1, 4, 2}, {1, 4, 1}}, time.Second},
		"one that unpacks once and tells": {false, 4, 4, [][3]int{{1, 4, 3}, {1, 4, 2}}, time.Second},
		"one image alone":                 {true, 4, 4, [][3]int{{1, 4, 3}}, time.Second},
		"one that tells too much":         {true, 99, 4, [][3]int{{1, 4, 3}, {1, 4, 2}}, 1500 * time.Millisecond},
		"others do not wait":              {true, 0, 2, [][3]int{{1, 4, 3}, {1, 4, 2}, {2, 1, 1}}, 2 * time.Second},
		"what came is not waited for":     {true, 0, 1, [][3]int{{1, 4, 3}, {1, 4, 2}, {1, 4, 1}}, 3 * time.Second},
		"a base that is there, with more": {true, 4, 4, [][3]int{{1, 4, 9}, {1, 4, 8}, {1, 4, 7}}, 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, s, into := slowLane(t, make([]int, len(test.images))...)
				o.Concurrency, o.Targets[0].Target = test.concurrency, telling{into, test.twice, test.tells}
				for key, ref := range s.refs {
					i := int(ref[2] - '0')
					s.images[key] = onBase(t, ref, 10*uint64(test.images[i][0]), test.images[i][1], test.images[i][2])
				}
				got := lane.Run(t.Context(), o)
				require.Equal(t, report.Success, got.Result, got.Problems)
				require.Equal(t, 20*time.Millisecond+test.want, got.Elapsed)
				require.Len(t, into.names, len(test.images))
			})
		})
	}
}
