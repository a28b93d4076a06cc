package lane_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cachekey"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/lane"
	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/target"
)

// slowStore takes its time to open entries, and counts those that are open.
type slowStore struct {
	images map[string]image.Image
	delay  func(ref string) time.Duration // how long an entry takes

	mu     sync.Mutex
	refs   map[string]string // by key
	opened []context.Context
	most   int
}

func (*slowStore) Stat(context.Context, string) (store.Entry, error) {
	return store.Entry{}, errors.New("unused")
}

func (*slowStore) Save(context.Context, string, image.Image) error { return errors.New("unused") }

func (s *slowStore) Open(ctx context.Context, key string) (image.Image, error) {
	s.open(ctx)
	if err := sleep(ctx, s.delay(s.refs[key])); err != nil {
		return image.Image{}, err
	}
	img, ok := s.images[key]
	if !ok {
		return image.Image{}, store.ErrNotFound
	}
	return img, nil
}

// open is how many entries are open, those included that are opened now.
func (s *slowStore) open(now ...context.Context) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = slices.DeleteFunc(append(s.opened, now...), func(ctx context.Context) bool { return ctx.Err() != nil })
	s.most = max(s.most, len(s.opened))
	return len(s.opened)
}

// sleep is time.Sleep that a context ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// slowTarget takes a second for each image, and keeps the order in which they came.
type slowTarget struct {
	mu    sync.Mutex
	names []string
	ended map[string]time.Time
}

func (*slowTarget) Platform(context.Context) (platform.Platform, error) { return linux, nil }

func (s *slowTarget) Load(ctx context.Context, img image.Image) (target.Result, error) {
	name := img.Reference().Familiar()
	s.mu.Lock()
	s.names = append(s.names, name)
	s.mu.Unlock()
	err := sleep(ctx, time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[name] = time.Now()
	return target.Result{Outcome: target.Loaded}, err
}

// slowRegistry never answers before its time.
type slowRegistry struct{ delay time.Duration }

func (r slowRegistry) Pull(ctx context.Context, _ reference.Reference, _ platform.Platform) (*registry.Pull, error) {
	if err := sleep(ctx, r.delay); err != nil {
		return nil, err
	}
	return nil, errors.New("too many requests")
}

// slowLane is a lane of images with so many bytes each, of which the store lacks those without.
func slowLane(t *testing.T, sizes ...int) (lane.Options, *slowStore, *slowTarget) {
	t.Helper()
	s := &slowStore{images: map[string]image.Image{}, refs: map[string]string{}, delay: func(string) time.Duration { return 20 * time.Millisecond }}
	into := &slowTarget{ended: map[string]time.Time{}}
	o := lane.Options{
		Store: s, Registry: slowRegistry{time.Minute}, Targets: []lane.Target{{Name: "slow", Target: into}}, Concurrency: 1,
	}
	for i, size := range sizes {
		ref := fmt.Sprintf("i%02d:1", i)
		one := pin.Pin{Reference: reference.MustParse(ref)}
		o.Pins = append(o.Pins, one)
		key := lane.Items([]pin.Pin{one}, linux, "", cachekey.V1)[0].Key
		s.refs[key] = ref
		if size > 0 {
			s.images[key] = imagetest.New(t, imagetest.Options{Reference: ref, LayerSize: size})
		}
	}
	return o, s, into
}

func TestAllEntriesAreOpenedAtOnceAndTheLargestGoesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, _, into := slowLane(t, 2000, 9000, 1000, 5000)
		got := lane.Run(t.Context(), o)
		require.Equal(t, report.Success, got.Result, got.Problems)
		require.Equal(t, []string{"i01:1", "i03:1", "i00:1", "i02:1"}, into.names)
		require.Equal(t, 20*time.Millisecond+4*time.Second, got.Elapsed)
		for i, row := range got.Images {
			require.Equal(t, o.Pins[i].Reference.String(), row.Reference, "rows stand in the order of the list")
			require.Equal(t, 1020*time.Millisecond, row.Elapsed, "what went by in a queue is not the image's")
		}
		require.Equal(t, 3*time.Second, got.Images[2].Started, "counted back from its end")
	})
}

// preparing is a slowTarget that has something to ask first.
type preparing struct {
	*slowTarget
	ask      time.Duration
	prepared bool
}

func (p *preparing) Prepare(ctx context.Context) { p.prepared = sleep(ctx, p.ask) == nil }

func TestTargetPreparesWhileEntriesAreOpened(t *testing.T) {
	t.Parallel()
	for _, ask := range []time.Duration{15 * time.Millisecond, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			o, _, into := slowLane(t, 1000)
			p := &preparing{slowTarget: into, ask: ask}
			o.Targets[0].Target = p
			got := lane.Run(t.Context(), o)
			require.Equal(t, report.Success, got.Result, got.Problems)
			require.Equal(t, 1020*time.Millisecond, got.Elapsed)
			require.Equal(t, ask < time.Second, p.prepared, "it ends with the lane")
		})
	}
}

// expecting is a slowTarget that can ask about several images at once.
type expecting struct {
	*slowTarget
	ask time.Duration
	got []string
}

func (e *expecting) Expect(ctx context.Context, images []image.Image) {
	for _, img := range images {
		e.got = append(e.got, img.Reference().Familiar())
	}
	_ = sleep(ctx, e.ask)
}

func TestTargetIsAskedAboutAllImagesAtOnceBeforeTheFirst(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sizes     []int
		ask, held time.Duration // how long it takes, and how long it holds the loads up
		want      []string
	}{
		"several": {[]int{1000, 0, 2000}, 80 * time.Millisecond, 80 * time.Millisecond, []string{"i00:1", "i02:1"}},
		"one":     {[]int{1000}, 80 * time.Millisecond, 0, nil},
		"a hang":  {[]int{1000, 2000}, time.Hour, 2 * time.Second, []string{"i00:1", "i01:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, _, into := slowLane(t, test.sizes...)
				e := &expecting{slowTarget: into, ask: test.ask}
				o.Targets[0].Target, o.OnMiss, o.Concurrency = e, lane.Warn, 2
				got := lane.Run(t.Context(), o)
				require.Equal(t, 1020*time.Millisecond+test.held, got.Elapsed)
				require.ElementsMatch(t, test.want, e.got)
				require.Equal(t, 1020*time.Millisecond, got.Images[0].Elapsed)
			})
		})
	}
}

func TestWhatIsNotThereYetHoldsNothingUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, s, into := slowLane(t, 1000, 9000, 2000)
		s.delay = func(ref string) time.Duration {
			if ref == "i01:1" {
				return 20 * time.Second
			}
			return 20 * time.Millisecond
		}
		started := time.Now()
		got := lane.Run(t.Context(), o)
		require.Equal(t, report.Success, got.Result, got.Problems)
		require.Equal(t, []string{"i02:1", "i00:1", "i01:1"}, into.names)
		require.Equal(t, 1220*time.Millisecond, into.ended["i02:1"].Sub(started), "which waited a little for the third")
		require.Equal(t, 21*time.Second, got.Elapsed)
	})
}

func TestPullsHoldNothingUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, _, into := slowLane(t, 0, 0, 1000, 2000)
		started := time.Now()
		got := lane.Run(t.Context(), o)
		require.Equal(t, []string{"i03:1", "i02:1"}, into.names)
		require.Equal(t, 2020*time.Millisecond, into.ended["i02:1"].Sub(started))
		require.Equal(t, 20*time.Millisecond+2*time.Minute, got.Elapsed, "one pull at a time")
		require.Len(t, got.Problems, 2)
		for i, p := range got.Problems {
			require.Equal(t, o.Pins[i].Reference.Familiar(), p.Image, "problems stand in the order of the list")
			require.Equal(t, time.Minute+20*time.Millisecond, got.Images[i].Elapsed)
		}
	})
}

func TestOpenEntriesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, s, into := slowLane(t, slices.Repeat([]int{1000}, 200)...)
		o.Concurrency = 4
		got := lane.Run(t.Context(), o)
		require.Equal(t, report.Success, got.Result, got.Problems)
		require.Len(t, into.names, 200)
		require.Equal(t, 16, s.most)
		require.Zero(t, s.open(), "each is let go of when its image is done")
	})
}

func TestEndOfALaneIsTheEndOfItsQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, _, into := slowLane(t, 1000, 2000, 3000)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		got := lane.Run(ctx, o)
		require.Equal(t, 1500*time.Millisecond, got.Elapsed)
		require.Equal(t, []string{"i02:1", "i01:1"}, into.names)
		require.Equal(t, []report.Source{report.Nowhere, report.Nowhere, report.Cache}, sources(got))
	})
}

func TestConcurrencyFollowsTheCores(t *testing.T) {
	t.Parallel()
	for cores, want := range map[int]int{1: 2, 2: 2, 3: 3, 4: 4, 64: 4} {
		require.Equal(t, want, lane.Concurrency(cores), "%d cores", cores)
	}
}
