package containerd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/command/commandtest"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/containerd"
)

const partPrefix = "pullonce.invalid/part/"

// newParted is a daemon that is brought every layer in a part of its own.
func newParted(t *testing.T) *daemon {
	t.Helper()
	d := newDaemon(t, true)
	d.partSize = 1
	d.kubelet = true
	return d
}

// stack is an image of as many layers; those of one seed have their first ones in common.
func stack(t *testing.T, name string, layers int) image.Image {
	return imagetest.New(t, imagetest.Options{Index: true, Layers: layers, Reference: "docker.io/library/" + name})
}

// opens are the layers of images that were opened, in their order.
type opens struct {
	mu     sync.Mutex
	layers []string
}

func (o *opens) of(img image.Image) image.Image {
	return img.Via(func(s image.Source) image.Source {
		return imagetest.Source(func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.layers = append(o.layers, d.Digest.String())
			return s.Blob(ctx, d)
		})
	})
}

func layersOf(img image.Image, from int) []string {
	var all []string
	for _, l := range img.Layers()[from:] {
		all = append(all, l.Descriptor.Digest.String())
	}
	return all
}

// namesOf are the names in a daemon, sorted.
func namesOf(d *daemon) []string { return slices.Sorted(maps.Keys(d.state())) }

// wantedNames are the names that the kubelet has of an image.
func wantedNames(img image.Image) []string {
	ref := img.Reference()
	names := []string{ref.Tagged(), ref.WithDigest(img.Root().Digest), ref.WithDigest(img.Manifest().Digest), img.Config().Digest.String()}
	slices.Sort(names)
	return names
}

func imports(d *daemon) int {
	n := 0
	for _, call := range d.calls() {
		if strings.HasPrefix(call, "import ") {
			n++
		}
	}
	return n
}

func TestImageInParts(t *testing.T) {
	t.Parallel()
	d := newParted(t)
	img := stack(t, "parts:1", 4)
	var had []string // what was named when
	d.imported = func(name, _ string) error {
		had = append(had, strings.Split(name, "@")[0])
		return nil
	}
	var opened opens
	result, err := d.target().Load(t.Context(), opened.of(img))
	require.NoError(t, err)
	require.Equal(t, target.Loaded, result.Outcome)
	require.Equal(t, layersOf(img, 0), opened.layers, "each once, the base first")
	require.Len(t, had, 4)
	for _, name := range had[:3] {
		require.True(t, strings.HasPrefix(name, partPrefix), name)
	}
	require.Equal(t, "docker.io/library/parts", had[3])
	require.Equal(t, wantedNames(img), namesOf(d), "no part has a name any more")

	d = newDaemon(t, true)
	_, err = d.target().Load(t.Context(), img)
	require.NoError(t, err)
	require.Equal(t, 1, imports(d), "what is small is sent at once")
}

// starts is a runner for which a chain is one start, as in a node.
type starts struct {
	command.Runner

	mu    sync.Mutex
	begun []string // what each began with, and how many others there were
}

func (s *starts) Run(ctx context.Context, c command.Command) (command.Output, error) {
	s.note(c.Argv, 0)
	return s.Runner.Run(ctx, c)
}

func (s *starts) RunChain(ctx context.Context, chain []command.Command) []command.Result {
	s.note(chain[0].Argv, len(chain)-1)
	return command.RunChain(ctx, s.Runner, chain)
}

func (s *starts) note(argv []string, others int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, subcommand, _ := strings.Cut(strings.Join(argv, " "), " k8s.io ")
	s.begun = append(s.begun, fmt.Sprintf("%s and %d more", strings.Join(strings.Fields(subcommand)[:2], " "), others))
}

// In a node a start costs more than what is started. What is asked at the same time takes one as well, which is no chain.
func TestAnExpectedImageTakesFewStarts(t *testing.T) {
	t.Parallel()
	d := newParted(t)
	n := d.namespace()
	runner := &starts{Runner: d.runner}
	n.Client.(*containerd.Ctr).Runner, n.PartSize = runner, 1
	_, err := n.About(t.Context())
	require.NoError(t, err)
	runner.begun = nil
	one, two := stack(t, "one:1", 2), stack(t, "two:1", 3) // which has one's layers as well
	n.Expect(t.Context(), []image.Image{one, two})
	require.Equal(t, "images check and 0 more", runner.begun[0])
	require.ElementsMatch(t, []string{"content ls and 0 more", "images ls and 0 more", "images import and 0 more"}, runner.begun[1:], "the last for its flags")

	runner.begun = nil
	_, err = n.Load(t.Context(), one)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"images import and 0 more", "images import and 1 more"}, runner.begun[:2])
	require.ElementsMatch(t, []string{"images tag and 1 more", "images rm and 0 more"}, runner.begun[2:])

	runner.begun = nil
	_, err = n.Load(t.Context(), two)
	require.NoError(t, err)
	require.Equal(t, []string{"images import and 1 more", "images tag and 1 more"}, runner.begun)
}

// Whatever breaks in whichever part, no name stays, and of what was there none goes.
func TestPartThatBreaks(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			d := newParted(t)
			old := imagetest.New(t, imagetest.Options{Seed: 7, Reference: "docker.io/library/parts:1"})
			d.hold(old, old.Reference().Tagged())
			img := stack(t, "parts:1", 4)
			bad := img.Layers()[i].Descriptor.Digest
			_, err := d.target().Load(t.Context(), img.Via(func(s image.Source) image.Source {
				return imagetest.Source(func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
					if d.Digest == bad {
						return nil, broken
					}
					return s.Blob(ctx, d)
				})
			}))
			require.ErrorIs(t, err, broken)
			require.ErrorIs(t, err, image.ErrRead)
			require.Equal(t, []string{old.Reference().Tagged()}, namesOf(d))
		})
	}
}

// Another process has brought the image meanwhile: what it has named is its own, however this load ends.
func TestFailedLoadLeavesWhatAnotherBrought(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	d := newParted(t)
	img := stack(t, "parts:1", 4)
	last := img.Layers()[3].Descriptor.Digest
	_, err := d.target().Load(t.Context(), img.Via(func(s image.Source) image.Source {
		return imagetest.Source(func(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
			if desc.Digest != last {
				return s.Blob(ctx, desc)
			}
			_, err := d.target().Load(ctx, img)
			assert.NoError(t, err)
			return nil, broken
		})
	}))
	require.ErrorIs(t, err, broken)
	require.Equal(t, wantedNames(img), namesOf(d))
}

// What there was no memory for is not sent again, in one piece.
func TestPartThatIsKilled(t *testing.T) {
	t.Parallel()
	d := newParted(t)
	d.imported = func(name, _ string) error {
		if strings.HasPrefix(name, partPrefix) {
			return nil
		}
		return commandtest.Failure(-1, "Killed\n")
	}
	_, err := d.target().Load(t.Context(), stack(t, "parts:1", 4))
	require.EqualError(t, err, "ctr images import: Killed (there was no memory left for it, or somebody ended it)")
	require.Equal(t, 4, imports(d))
	require.Empty(t, namesOf(d))
}

// A containerd that won't have an image in parts gets it whole; one without room gets no more.
func TestPartThatIsRefused(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]struct {
		imports []int
		err     string
	}{
		"ctr: not in parts\n":            {[]int{2, 3, 4, 5}, ""}, // how far the rest has come by then is up to chance
		"ctr: no space left on device\n": {[]int{1, 2, 3, 4}, "no space left on device"},
	} {
		t.Run(said, func(t *testing.T) {
			t.Parallel()
			d := newParted(t)
			d.imported = func(name, _ string) error {
				if strings.HasPrefix(name, partPrefix) {
					return commandtest.Failure(1, said)
				}
				return nil
			}
			img := stack(t, "parts:1", 4)
			result, err := d.target().Load(t.Context(), img)
			require.Contains(t, want.imports, imports(d))
			if want.err != "" {
				require.ErrorContains(t, err, want.err)
				require.Empty(t, namesOf(d))
				return
			}
			require.NoError(t, err)
			named, err := img.ByDigest()
			require.NoError(t, err)
			require.Greater(t, result.Sent, image.EncodedSize(named))
			require.Equal(t, wantedNames(img), namesOf(d))
		})
	}
}

func TestLayersThatAreThereAreLeftOut(t *testing.T) {
	t.Parallel()
	d := newParted(t)
	c := d.target()
	_, err := c.Load(t.Context(), stack(t, "base:1", 3))
	require.NoError(t, err)
	img := stack(t, "other:1", 5)
	var opened opens
	_, err = c.Load(t.Context(), opened.of(img))
	require.NoError(t, err)
	require.Equal(t, layersOf(img, 3), opened.layers)

	t.Run("also those that another process brought, unpacked or not", func(t *testing.T) {
		clear(d.snapshots)
		img := stack(t, "third:1", 6)
		var opened opens
		_, err = d.target().Load(t.Context(), opened.of(img))
		require.NoError(t, err)
		require.Equal(t, layersOf(img, 5), opened.layers)
	})
	t.Run("unless they go before they are needed", func(t *testing.T) {
		img := stack(t, "fourth:1", 7)
		d.imported = func(string, string) error {
			delete(d.content, layersOf(img, 0)[1])
			d.imported = nil
			return nil
		}
		var opened opens
		_, err = d.target().Load(t.Context(), opened.of(img))
		require.NoError(t, err)
		require.Equal(t, append(layersOf(img, 6), layersOf(img, 0)...), opened.layers, "then the whole is sent")
	})
}

// Images that are loaded at once send what they have in common once.
func TestImagesAtOnceShareLayers(t *testing.T) {
	t.Parallel()
	d := newParted(t)
	c := d.target()
	var opened opens
	var loads errgroup.Group
	var all []string
	for i := range 4 {
		img := stack(t, fmt.Sprintf("at-once:%d", i), 2+i)
		all = append(all, wantedNames(img)...)
		loads.Go(func() error {
			_, err := c.Load(t.Context(), opened.of(img))
			return err
		})
	}
	require.NoError(t, loads.Wait())
	slices.Sort(opened.layers)
	require.Equal(t, slices.Compact(slices.Clone(opened.layers)), opened.layers, "none was read twice")
	slices.Sort(all)
	require.Equal(t, slices.Compact(all), namesOf(d))
}

// requireNamesBeside loads an image, and wants the daemon to have its names and these.
func requireNamesBeside(t *testing.T, d *daemon, others ...string) {
	t.Helper()
	img := stack(t, "parts:1", 1)
	_, err := d.target().Load(t.Context(), img)
	require.NoError(t, err)
	want := append(wantedNames(img), others...)
	slices.Sort(want)
	require.Equal(t, want, namesOf(d))
}

// Names that a killed load left go with the next load, those of a load that may be alive don't.
func TestAbandonedPartsGo(t *testing.T) {
	t.Parallel()
	d := newParted(t)
	left := "sha256:" + strings.Repeat("1", 64)
	name := func(age time.Duration) string {
		return fmt.Sprintf("%s%d-abc@%s", partPrefix, time.Now().Add(-age).Unix(), left)
	}
	old, young, id := name(2*time.Hour), name(time.Minute), "sha256:"+strings.Repeat("2", 64)
	for _, n := range []string{old, young, id, partPrefix + "unknown@" + left} {
		d.names[n] = left
	}
	requireNamesBeside(t, d, young, partPrefix+"unknown@"+left)
}

// A name like that of a part leads to no other image.
func TestAbandonedNameWithoutADigest(t *testing.T) {
	t.Parallel()
	d := newParted(t)
	id := "sha256:" + strings.Repeat("2", 64)
	d.names[partPrefix+"1-x"], d.names[id] = "sha256:"+strings.Repeat("1", 64), "sha256:"+strings.Repeat("3", 64)
	requireNamesBeside(t, d, id)
}

// What could not be asked is asked again.
func TestAbandonedPartsAreLookedForAgain(t *testing.T) {
	t.Parallel()
	d := newParted(t)
	left := "sha256:" + strings.Repeat("1", 64)
	d.names[partPrefix+"1-x@"+left] = left
	n, img := d.namespace(), stack(t, "parts:1", 1)
	n.PartSize = 1
	d.on("ctr", "images ls --quiet", commandtest.Fails(1, "ctr: busy\n"))
	n.Expect(t.Context(), []image.Image{img})
	d.on("ctr", "images ls --quiet", d.list)
	_, err := n.Load(t.Context(), img)
	require.NoError(t, err)
	require.Equal(t, wantedNames(img), namesOf(d))
}
