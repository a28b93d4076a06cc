package containerd_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/command/commandtest"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/target"
)

const (
	repository = "docker.io/library/test"
	tag        = repository + ":1"
	byRoot     = repository + "@new.root"
	byManifest = repository + "@new.manifest"
	elsewhere  = "docker.io/library/elsewhere:9"
)

// The images of these tests: new has an index, old has the same names and nothing else in common.
func newImage(t *testing.T) image.Image {
	return imagetest.New(t, imagetest.Options{Index: true, Layers: 2})
}

func oldImage(t *testing.T) image.Image {
	return imagetest.New(t, imagetest.Options{Index: true, Seed: 7})
}

func TestPlatformIsTheDaemonsOwn(t *testing.T) {
	t.Parallel()
	p, err := newDaemon(t, true).target().Platform(t.Context())
	require.NoError(t, err)
	require.Equal(t, platform.Platform{OS: "linux", Architecture: "amd64"}, p)
}

func TestLoad(t *testing.T) {
	t.Parallel()
	all := map[string]string{tag: "new.root", byRoot: "new.root", byManifest: "new.root"}
	with := func(more map[string]string) map[string]string {
		for name, target := range all {
			more[name] = target
		}
		return more
	}
	tests := map[string]struct {
		given func(d *daemon, img, old image.Image)
		want  target.Result // Sent is 1 for all of it
		calls []string
		names map[string]string
	}{
		"empty": {
			want:  target.Result{Outcome: target.Loaded, Sent: 1},
			calls: []string{"import --local -", "tag --force " + byRoot + " " + tag + " " + byManifest},
			names: all,
		},
		"there already": {
			given: func(d *daemon, img, _ image.Image) {
				d.hold(img, tag, img.Reference().WithDigest(img.Root().Digest), img.Reference().WithDigest(img.Manifest().Digest))
			},
			want:  target.Result{Outcome: target.Present},
			names: all,
		},
		"there by its tag alone": {
			given: func(d *daemon, img, _ image.Image) { d.hold(img, tag) },
			want:  target.Result{Outcome: target.Tagged},
			calls: []string{"tag --force " + tag + " " + byRoot + " " + byManifest},
			names: all,
		},
		"there under another name": {
			given: func(d *daemon, img, _ image.Image) { d.hold(img, elsewhere) },
			want:  target.Result{Outcome: target.Tagged},
			calls: []string{"tag --force " + elsewhere + " " + tag + " " + byRoot + " " + byManifest},
			names: with(map[string]string{elsewhere: "new.root"}),
		},
		"another image under the tag": {
			given: func(d *daemon, _, old image.Image) { d.hold(old, tag, elsewhere) },
			want:  target.Result{Outcome: target.Loaded, Sent: 1, Replaced: "old.root"},
			calls: []string{"import --local -", "tag --force " + byRoot + " " + tag + " " + byManifest},
			names: with(map[string]string{elsewhere: "old.root"}),
		},
		"another image under the tag, this one elsewhere": {
			given: func(d *daemon, img, old image.Image) {
				d.hold(old, tag)
				d.hold(img, elsewhere)
			},
			want:  target.Result{Outcome: target.Tagged, Replaced: "old.root"},
			calls: []string{"tag --force " + elsewhere + " " + tag + " " + byRoot + " " + byManifest},
			names: with(map[string]string{elsewhere: "new.root"}),
		},
		"there, but not unpacked": {
			given: func(d *daemon, img, _ image.Image) {
				d.hold(img, tag)
				d.unpacked[img.Root().Digest.String()] = false
			},
			want:  target.Result{Outcome: target.Loaded, Sent: 1},
			calls: []string{"import --local -", "tag --force " + byRoot + " " + tag + " " + byManifest},
			names: all,
		},
		"its manifest is there alone": {
			given: func(d *daemon, img, _ image.Image) {
				d.names[tag] = img.Manifest().Digest.String()
				d.unpacked[img.Manifest().Digest.String()] = true
			},
			want:  target.Result{Outcome: target.Tagged},
			calls: []string{"tag --force " + tag + " " + byRoot + " " + byManifest},
			names: map[string]string{tag: "new.manifest", byRoot: "new.manifest", byManifest: "new.manifest"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			img, old := newImage(t), oldImage(t)
			d := newDaemon(t, true)
			d.label("new", img)
			d.label("old", old)
			if test.given != nil {
				test.given(d, img, old)
			}
			got, err := d.target().Load(t.Context(), img)
			require.NoError(t, err)
			got.Replaced = d.labelled(got.Replaced)
			if got.Outcome == target.Loaded {
				named, err := img.ByDigest()
				require.NoError(t, err)
				require.Equal(t, image.EncodedSize(named), got.Sent)
				got.Sent = 1
			}
			require.Equal(t, test.want, got)
			require.Equal(t, test.calls, d.calls())
			require.Equal(t, test.names, d.state())
		})
	}
}

func TestNamesFollowThePin(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options imagetest.Options
		names   []string
	}{
		"tag, no index":  {imagetest.Options{}, []string{tag, byRoot}},
		"tag and digest": {imagetest.Options{Index: true, Digest: true}, []string{tag, byRoot, byManifest}},
		"digest alone":   {imagetest.Options{Index: true, ByDigest: true}, []string{byRoot, byManifest}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, false)
			img := imagetest.New(t, test.options)
			d.label("new", img)
			_, err := d.target().Load(t.Context(), img)
			require.NoError(t, err)
			require.Equal(t, "import -", d.calls()[0], "ctr 1.6 has no --local")
			var names []string
			for name := range d.state() {
				names = append(names, name)
			}
			require.ElementsMatch(t, test.names, names)
		})
	}
}

func TestFailedLoadsLeaveNoName(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		given func(d *daemon)
		want  string
	}{
		"the import fails after it has named the image": {
			func(d *daemon) {
				d.imported = func(_, target string) error {
					d.unpacked[target] = false
					return commandtest.Failure(1, "time=\"x\" level=warning msg=\"DEPRECATION\"\nctr: write /x: no space left on device\n")
				}
			},
			"ctr images import: write /x: no space left on device (free space where containerd keeps its data: it holds the archive's content and the unpacked image)",
		},
		"the import succeeds without unpacking": {
			func(d *daemon) {
				d.imported = func(_, target string) error {
					d.unpacked[target] = false
					return nil
				}
			},
			"containerd reported success, but " + byRoot + " is complete (3/3), not unpacked",
		},
		"the import succeeds without the image": {
			func(d *daemon) {
				d.imported = func(name, _ string) error {
					delete(d.names, name)
					return nil
				}
			},
			"containerd reported success, but " + byRoot + " is not there",
		},
		"a tag is refused": {
			func(d *daemon) { d.on("ctr", "images tag --force", commandtest.Fails(1, "ctr: not today\n")) },
			"ctr images tag: not today",
		},
		"a tag is forgotten": {
			func(d *daemon) { d.on("ctr", "images tag --force", commandtest.Says("")) },
			"containerd reported success, but " + tag + " is not there",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			img, old := newImage(t), oldImage(t)
			d := newDaemon(t, true)
			d.kubelet = true
			d.label("new", img)
			d.label("old", old)
			d.hold(old, elsewhere)
			test.given(d)
			result, err := d.target().Load(t.Context(), img)
			require.Error(t, err)
			require.Equal(t, test.want, d.labelled(err.Error()))
			require.Empty(t, result.Outcome)
			require.NotErrorIs(t, err, target.ErrUnavailable)
			require.Equal(t, map[string]string{elsewhere: "old.root"}, d.state())
		})
	}
}

// A failed load leaves the names that were there: of this image, and of another that has the tag.
func TestFailedLoadLeavesWhatWasThere(t *testing.T) {
	t.Parallel()
	img, old := newImage(t), oldImage(t)
	d := newDaemon(t, true)
	d.label("new", img)
	d.label("old", old)
	d.hold(old, tag)
	d.names[img.Reference().WithDigest(img.Root().Digest)] = img.Root().Digest.String()
	d.imported = func(string, string) error { return commandtest.Failure(1, "bad luck") }
	_, err := d.target().Load(t.Context(), img)
	require.ErrorContains(t, err, "bad luck")
	require.Equal(t, "old.root", d.state()[tag])
	require.Contains(t, d.state(), byRoot)
	require.Len(t, d.state(), 2)
}

func TestBrokenSourceImportsNothing(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection reset")
	img := newImage(t).Via(func(image.Source) image.Source {
		return imagetest.Source(func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) { return nil, refused })
	})
	d := newDaemon(t, true)
	_, err := d.target().Load(t.Context(), img)
	require.ErrorIs(t, err, refused)
	require.ErrorIs(t, err, image.ErrRead)
	require.Empty(t, d.state())
}

func TestWhatIsThereIsNotRead(t *testing.T) {
	t.Parallel()
	var opened atomic.Int32
	for _, names := range [][]string{{tag}, {elsewhere}} {
		img := newImage(t).Via(func(s image.Source) image.Source {
			return imagetest.Source(func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
				opened.Add(1)
				return s.Blob(ctx, d)
			})
		})
		d := newDaemon(t, true)
		d.hold(img, names...)
		_, err := d.target().Load(t.Context(), img)
		require.NoError(t, err)
	}
	require.Zero(t, opened.Load())
}

func TestLoadsAtOnce(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, true)
	first, second := newImage(t), imagetest.New(t, imagetest.Options{Index: true, Layers: 2, Reference: elsewhere})
	c := d.target()
	_, err := c.Platform(t.Context())
	require.NoError(t, err)
	var loads errgroup.Group
	for _, img := range []image.Image{first, second, first, second} {
		loads.Go(func() error {
			_, err := c.Load(t.Context(), img)
			return err
		})
	}
	require.NoError(t, loads.Wait())
	imports := 0
	for _, call := range d.calls() {
		if call == "import --local -" {
			imports++
		}
	}
	require.Equal(t, 1, imports, "one image is sent once, whatever its names")
}

func TestImageForAnotherMachineIsRefused(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, true)
	img := imagetest.New(t, imagetest.Options{Platform: platform.Platform{OS: "linux", Architecture: "riscv64"}})
	_, err := d.target().Load(t.Context(), img)
	require.EqualError(t, err, "the image is for linux/riscv64, containers here are linux/amd64: pin it for that platform, with platforms=linux/amd64")
	require.Empty(t, d.calls())
}

func imageFor(t *testing.T, p platform.Platform) image.Image {
	return imagetest.New(t, imagetest.Options{Index: true, Platform: p})
}
