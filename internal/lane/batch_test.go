package lane_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/lane"
	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/target"
)

// countingStore counts what is opened: entries, and layers of them.
type countingStore struct {
	store.Store
	entries, layers atomic.Int32
}

func (s *countingStore) Open(ctx context.Context, key string) (image.Image, error) {
	s.entries.Add(1)
	img, err := s.Store.Open(ctx, key)
	if err != nil {
		return img, err
	}
	return img.Via(func(source image.Source) image.Source { return countingSource{source, &s.layers} }), nil
}

type countingSource struct {
	image.Source
	opened *atomic.Int32
}

func (s countingSource) Blob(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	s.opened.Add(1)
	return s.Source.Blob(ctx, d)
}

// severalTargets is a primed bench whose lane has three targets, and the counting store in front of its own.
func severalTargets(t *testing.T, prime bool, refs ...string) (*bench, *countingStore, []*memory) {
	t.Helper()
	b := newBench(t, refs...)
	if prime {
		b.prime(t)
	}
	counting := &countingStore{Store: b.store}
	b.options.Store, b.options.Targets = counting, nil
	var memories []*memory
	for _, name := range []string{"one", "two", "three"} {
		m := &memory{platform: linux, images: map[string]string{}}
		memories = append(memories, m)
		b.options.Targets = append(b.options.Targets, lane.Target{Name: name, Target: m})
	}
	return b, counting, memories
}

func TestSeveralTargetsReadTheEntryOnce(t *testing.T) {
	t.Parallel()
	b, counting, memories := severalTargets(t, true, "redis:7")
	got := lane.Run(t.Context(), b.options)
	require.Equal(t, report.Success, got.Result, got.Problems)
	require.EqualValues(t, 1, counting.entries.Load())
	require.EqualValues(t, 2, counting.layers.Load(), "each layer once")
	for i, m := range memories {
		require.Len(t, m.images, 1)
		require.Equal(t, []string{"one", "two", "three"}[i], got.Images[i].Target)
		require.Equal(t, report.Cache, got.Images[i].Source)
	}

	memories[1].images = map[string]string{}
	got = lane.Run(t.Context(), b.options)
	require.Equal(t, []report.Source{report.Present, report.Cache, report.Present}, sources(got))
	require.EqualValues(t, 4, counting.layers.Load(), "for the one that lacks it")
}

func sources(r report.Report) (all []report.Source) {
	for _, row := range r.Images {
		all = append(all, row.Source)
	}
	return all
}

func TestOneTargetFailsAlone(t *testing.T) {
	t.Parallel()
	b, _, memories := severalTargets(t, true, "redis:7")
	memories[1].load = errors.New("no space left on device")
	memories[2].panics = true
	got := lane.Run(t.Context(), b.options)
	require.Equal(t, []report.Source{report.Cache, report.Nowhere, report.Nowhere}, sources(got))
	require.Len(t, got.Problems, 2)
	require.Equal(t, "redis:7: loading into two: no space left on device", got.Problems[0].Message)
	require.Equal(t, "redis:7: internal error: a bug", got.Problems[1].Message)
	require.Empty(t, b.registry.Log())
}

// awaiting notes which images others may wait for.
type awaiting struct {
	*memory
	names map[string]bool
}

func (a awaiting) Load(ctx context.Context, img image.Image) (target.Result, error) {
	a.mu.Lock()
	a.names[img.Reference().Familiar()] = img.Awaitable()
	a.mu.Unlock()
	return a.memory.Load(ctx, img)
}

// An image from a registry, which may throttle, is none that one from the store waits for.
func TestNobodyWaitsForWhatIsPulled(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7", "nginx:1")
	all := b.options.Pins
	b.options.Pins = all[:1]
	b.prime(t)
	b.options.Pins = all
	into := awaiting{b.target, map[string]bool{}}
	b.options.Targets = []lane.Target{{Name: "memory", Target: into}}
	lane.Run(t.Context(), b.options)
	require.Equal(t, map[string]bool{"redis:7": true, "nginx:1": false}, into.names)
}

func TestMissIsPulledOnceAndSaidOnce(t *testing.T) {
	t.Parallel()
	b, _, memories := severalTargets(t, false, "redis:7")
	got := lane.Run(t.Context(), b.options)
	require.Equal(t, []report.Source{report.Registry, report.Registry, report.Registry}, sources(got))
	require.Len(t, got.Problems, 1)
	require.Equal(t, "miss", got.Problems[0].Kind)
	blobs := 0
	for _, entry := range b.registry.Log() {
		if strings.Contains(entry.Path, "/blobs/") {
			blobs++
		}
	}
	require.Equal(t, 3, blobs, "config and two layers")
	for _, m := range memories {
		require.Len(t, m.images, 1)
	}

	b.options.OnMiss = lane.Warn
	b.options.Salt = "another"
	got = lane.Run(t.Context(), b.options)
	require.Len(t, got.Problems, 1, "the same miss for three targets is one warning")
}

// cluster is a target with parts.
type cluster struct {
	*memory
	parts *[]string
}

func (c cluster) Only(parts []string) target.Target {
	*c.parts = append(*c.parts, parts...)
	return c.memory
}

func TestNodesOfAPinSelectPartsOfATarget(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7", "nginx:1")
	b.options.Pins[1].Nodes = []string{"worker", "other-worker2"}
	b.prime(t)
	var parts []string
	b.options.Targets = append(b.options.Targets, lane.Target{Name: "kind", Target: cluster{memory: &memory{platform: linux, images: map[string]string{}}, parts: &parts}})
	got := lane.Run(t.Context(), b.options)
	require.Equal(t, report.Success, got.Result, got.Problems)
	require.Equal(t, []string{"worker", "other-worker2"}, parts)
	require.True(t, slices.ContainsFunc(b.options.Pins, func(p pin.Pin) bool { return len(p.Nodes) == 0 }))
}
