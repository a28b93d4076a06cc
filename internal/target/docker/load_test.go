package docker_test

import (
	"context"
	"io"
	"sync/atomic"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/target"
)

const (
	tag    = "docker.io/library/test:1"
	other  = "docker.io/library/other:9"
	byRoot = "docker.io/library/test@new.root"
)

// What the images of these tests are to each other: old and new have the same names and nothing else in common.
func newImage(t *testing.T, o imagetest.Options) image.Image {
	o.Index, o.Layers = true, 2
	return imagetest.New(t, o)
}

func oldImage(t *testing.T) image.Image {
	return imagetest.New(t, imagetest.Options{Index: true, Seed: 7})
}

func TestPlatformIsTheDaemonsOwn(t *testing.T) {
	t.Parallel()
	p, err := newEngine(t, false).target().Platform(t.Context())
	require.NoError(t, err)
	require.Equal(t, platform.Platform{OS: "linux", Architecture: "amd64"}, p)
}

func TestLoad(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		containerd bool
		options    imagetest.Options
		given      func(e *engine, img, old image.Image)
		want       target.Result // Sent is 1 for all of it, ids are labelled
		calls      []string
		names      map[string]string
	}{
		"classic, empty daemon": {
			want: target.Result{Outcome: target.Loaded, Sent: 1},
			calls: []string{
				"GET /images/" + tag + "/json", "GET /images/new.config/json", "GET /images/json", "POST /images/load", "GET /images/new.config/json",
				"GET /images/" + tag + "/json", "POST /images/new.config/tag " + tag, "GET /images/" + tag + "/json",
			},
			names: map[string]string{tag: "new.config"},
		},
		"containerd, empty daemon": {
			containerd: true,
			want:       target.Result{Outcome: target.Loaded, Sent: 1},
			calls: []string{
				"GET /images/" + tag + "/json", "GET /images/new.root/json", "GET /images/new.manifest/json", "GET /images/json", "POST /images/load",
				"GET /images/new.root/json", "GET /images/" + tag + "/json", "POST /images/new.root/tag " + tag,
				"GET /images/" + tag + "/json",
			},
			names: map[string]string{tag: "new.root"},
		},
		"classic, there already": {
			given: func(e *engine, img, _ image.Image) { e.hold(img, tag) },
			want:  target.Result{Outcome: target.Present},
			calls: []string{"GET /images/" + tag + "/json"},
			names: map[string]string{tag: "new.config"},
		},
		"containerd, there already by tag and digest": {
			containerd: true,
			options:    imagetest.Options{Digest: true},
			given:      func(e *engine, img, _ image.Image) { e.hold(img, tag) },
			want:       target.Result{Outcome: target.Present},
			calls:      []string{"GET /images/" + tag + "/json", "GET /images/" + byRoot + "/json"},
			names:      map[string]string{tag: "new.root"},
		},
		"containerd, its manifest is there alone": {
			containerd: true,
			given: func(e *engine, img, _ image.Image) {
				m := img.Manifest().Digest.String()
				e.images[m] = &held{manifest: m, available: true, unpacked: true}
				e.names[tag] = m
			},
			want:  target.Result{Outcome: target.Present},
			calls: []string{"GET /images/" + tag + "/json"},
			names: map[string]string{tag: "new.manifest"},
		},
		"containerd, its manifest is there, the pin is its root": {
			containerd: true,
			options:    imagetest.Options{Digest: true},
			given: func(e *engine, img, _ image.Image) {
				m := img.Manifest().Digest.String()
				e.images[m] = &held{manifest: m, available: true, unpacked: true}
				e.names[tag] = m
			},
			want: target.Result{Outcome: target.Loaded, Sent: 1, Replaced: "new.manifest"},
			calls: []string{
				"GET /images/" + tag + "/json", "GET /images/new.root/json", "GET /images/json", "GET /images/new.manifest/json", "POST /images/load", "GET /images/new.root/json",
				"GET /images/" + tag + "/json", "POST /images/new.root/tag " + tag, "GET /images/" + tag + "/json",
				"GET /images/" + byRoot + "/json",
			},
			names: map[string]string{tag: "new.root"},
		},
		"classic, under another name": {
			given: func(e *engine, img, _ image.Image) { e.hold(img, other) },
			want:  target.Result{Outcome: target.Tagged},
			calls: []string{
				"GET /images/" + tag + "/json", "GET /images/new.config/json", "GET /images/" + tag + "/json",
				"POST /images/new.config/tag " + tag, "GET /images/" + tag + "/json",
			},
			names: map[string]string{tag: "new.config", other: "new.config"},
		},
		"containerd, under another name while another image has its own": {
			containerd: true,
			given: func(e *engine, img, old image.Image) {
				e.hold(img, other)
				e.hold(old, tag)
			},
			want: target.Result{Outcome: target.Tagged, Replaced: "old.root"},
			calls: []string{
				"GET /images/" + tag + "/json", "GET /images/new.root/json", "GET /images/" + tag + "/json",
				"POST /images/new.root/tag " + tag, "GET /images/" + tag + "/json",
			},
			names: map[string]string{tag: "new.root", other: "new.root"},
		},
		"classic, another image under the name": {
			given: func(e *engine, _, old image.Image) { e.hold(old, tag, other) },
			want:  target.Result{Outcome: target.Loaded, Sent: 1, Replaced: "old.config"},
			calls: []string{
				"GET /images/" + tag + "/json", "GET /images/new.config/json", "GET /images/json", "GET /images/old.config/json", "POST /images/load", "GET /images/new.config/json",
				"GET /images/" + tag + "/json", "POST /images/new.config/tag " + tag, "GET /images/" + tag + "/json",
			},
			names: map[string]string{tag: "new.config", other: "old.config"},
		},
		"containerd, there with layers missing": {
			containerd: true,
			given:      func(e *engine, img, _ image.Image) { e.hold(img, tag).available = false },
			want:       target.Result{Outcome: target.Loaded, Sent: 1},
			calls: []string{
				"GET /images/" + tag + "/json", "GET /images/new.root/json", "GET /images/new.manifest/json", "GET /images/json", "GET /images/new.root/json",
				"POST /images/load", "POST /images/load",
				"GET /images/new.root/json", "GET /images/" + tag + "/json", "POST /images/new.root/tag " + tag,
				"GET /images/" + tag + "/json",
			},
			names: map[string]string{tag: "new.root"},
		},
		"classic, tag and digest": {
			options: imagetest.Options{Digest: true},
			given:   func(e *engine, img, _ image.Image) { e.hold(img, tag) },
			want:    target.Result{Outcome: target.Present, Unresolvable: []string{tag + "@new.root"}},
			calls:   []string{"GET /images/" + tag + "/json", "GET /images/" + byRoot + "/json"},
			names:   map[string]string{tag: "new.config"},
		},
		"classic, tag and digest, pulled by digest before": {
			options: imagetest.Options{Digest: true},
			given: func(e *engine, img, _ image.Image) {
				e.hold(img, tag, img.Reference().WithDigest(img.Root().Digest))
			},
			want:  target.Result{Outcome: target.Present},
			calls: []string{"GET /images/" + tag + "/json", "GET /images/" + byRoot + "/json"},
			names: map[string]string{tag: "new.config"},
		},
		"classic, digest alone": {
			options: imagetest.Options{ByDigest: true},
			want:    target.Result{Outcome: target.Loaded, Sent: 1, Unresolvable: []string{byRoot}},
			calls: []string{
				"GET /images/new.config/json", "GET /images/new.config/json", "GET /images/json", "POST /images/load", "GET /images/new.config/json",
				"GET /images/" + byRoot + "/json",
			},
			names: map[string]string{tag: ""},
		},
		"containerd, digest alone": {
			containerd: true,
			options:    imagetest.Options{ByDigest: true},
			want:       target.Result{Outcome: target.Loaded, Sent: 1},
			calls: []string{
				"GET /images/" + byRoot + "/json", "GET /images/new.root/json", "GET /images/json", "POST /images/load", "GET /images/" + byRoot + "/json",
			},
			names: map[string]string{tag: ""},
		},
		"containerd, digest alone, a tag of its repository is there": {
			containerd: true,
			options:    imagetest.Options{ByDigest: true},
			given:      func(e *engine, img, _ image.Image) { e.hold(img, tag) },
			want:       target.Result{Outcome: target.Present},
			calls:      []string{"GET /images/" + byRoot + "/json"},
			names:      map[string]string{tag: "new.root"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			img, old := newImage(t, test.options), oldImage(t)
			e := newEngine(t, test.containerd)
			e.label("new", img)
			e.label("old", old)
			if test.given != nil {
				test.given(e, img, old)
			}
			got, err := e.target().Load(t.Context(), img)
			require.NoError(t, err)

			got.Replaced = e.labelled(got.Replaced)
			for i, ref := range got.Unresolvable {
				got.Unresolvable[i] = e.labelled(ref)
			}
			if got.Outcome == target.Loaded {
				require.GreaterOrEqual(t, got.Sent, image.EncodedSize(img)-lessNames(t, img))
				got.Sent = 1
			}
			require.Equal(t, test.want, got)
			require.Equal(t, test.calls, e.takeCalls())
			for name, id := range test.names {
				require.Equal(t, id, e.named(name), name)
			}
		})
	}
}

// lessNames is how many bytes shorter img's archive is without its names. A name by digest alone is sent along.
func lessNames(t *testing.T, img image.Image) int64 {
	if img.Reference().Tag() == "" {
		return 0
	}
	unnamed, err := img.Unnamed()
	require.NoError(t, err)
	return image.EncodedSize(img) - image.EncodedSize(unnamed)
}

// counting counts the blobs that were opened.
type counting struct {
	image.Source
	opened atomic.Int32
}

// Blob implements image.Source.
func (c *counting) Blob(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	c.opened.Add(1)
	return c.Source.Blob(ctx, d)
}

func TestWhatIsThereIsNotRead(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{tag}, {other}, {}} {
		parts := imagetest.Parts(t, imagetest.Options{Index: true, Layers: 3})
		source := &counting{Source: parts.Source}
		parts.Source = source
		img, err := image.New(parts)
		require.NoError(t, err)
		for _, containerd := range []bool{false, true} {
			e := newEngine(t, containerd)
			e.hold(img, names...)
			_, err = e.target().Load(t.Context(), img)
			require.NoError(t, err)
			require.Zero(t, source.opened.Load())
		}
	}
}

func TestLayersThatTheDaemonHasAreNotSent(t *testing.T) {
	t.Parallel()
	for _, containerd := range []bool{false, true} {
		for name, test := range map[string]struct {
			held, img imagetest.Options
			opened    int32
		}{
			"a base in common":       {imagetest.Options{Reference: other, Layers: 3}, imagetest.Options{Layers: 5}, 2},
			"nothing in common":      {imagetest.Options{Reference: other, Layers: 3, Seed: 50}, imagetest.Options{Layers: 5}, 5},
			"all, and its own names": {imagetest.Options{Reference: other, Layers: 5}, imagetest.Options{Layers: 3}, 0},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				parts := imagetest.Parts(t, test.img)
				counted := &counting{Source: parts.Source}
				parts.Source = counted
				img, err := image.New(parts)
				require.NoError(t, err)
				e := newEngine(t, containerd)
				e.hold(imagetest.New(t, test.held), other)
				result, err := e.target().Load(t.Context(), img)
				require.NoError(t, err)
				require.Equal(t, target.Loaded, result.Outcome)
				require.Equal(t, test.opened, counted.opened.Load())
				require.Equal(t, e.id(img), e.named(tag))
			})
		}
	}
}

func TestWholeImageIsSentWhereLeavingLayersOutFails(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Layers: 5})
	e := newEngine(t, true)
	e.hold(imagetest.New(t, imagetest.Options{Reference: other, Layers: 3}), other).available = false
	result, err := e.target().Load(t.Context(), img)
	require.NoError(t, err)
	require.Equal(t, target.Loaded, result.Outcome)
	require.Greater(t, result.Sent, img.Size(), "both loads count")
	require.Equal(t, e.id(img), e.named(tag))
}

func TestLoadsAtOnce(t *testing.T) {
	t.Parallel()
	for _, containerd := range []bool{false, true} {
		e := newEngine(t, containerd)
		first, second := newImage(t, imagetest.Options{}), newImage(t, imagetest.Options{Reference: other})
		rival := oldImage(t)
		e.label("new", first)
		e.label("old", rival)
		d := e.target()
		var loads errgroup.Group
		for _, img := range []image.Image{first, second, first, rival, second, first} {
			loads.Go(func() error {
				_, err := d.Load(t.Context(), img)
				return err
			})
		}
		require.NoError(t, loads.Wait())
		sent := 0
		for _, call := range e.takeCalls() {
			if call == "POST /images/load" {
				sent++
			}
		}
		require.Equal(t, 2, sent, "each image is sent once")
		require.Equal(t, e.labelled(e.id(first)), e.named(other))
		require.Contains(t, []string{e.labelled(e.id(first)), e.labelled(e.id(rival))}, e.named(tag))
	}
}
