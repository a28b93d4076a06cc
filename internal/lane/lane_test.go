package lane_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cachekey"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/recompress"
	"github.com/pullonce/pullonce/internal/lane"
	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/prime"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/retry"
	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/store/dir"
	"github.com/pullonce/pullonce/internal/target"
)

var linux = platform.Platform{OS: "linux", Architecture: "amd64"}

// memory is a target that keeps the ids of what it was given.
type memory struct {
	mu           sync.Mutex
	platform     platform.Platform
	images       map[string]string // reference to config digest
	unavailable  error
	load         error
	unresolvable bool
	exact        bool // it takes no recompressed layers
	panics       bool
}

var _ target.Target = (*memory)(nil)

func (m *memory) Platform(context.Context) (platform.Platform, error) {
	return m.platform, m.unavailable
}

func (m *memory) get(ref string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.images[ref]
}

func (m *memory) Load(ctx context.Context, img image.Image) (target.Result, error) {
	if m.panics {
		panic("a bug")
	}
	ref, id := img.Reference().String(), img.Config().Digest.String()
	was := m.get(ref)
	if was == id {
		return target.Result{Outcome: target.Present}, nil
	}
	if m.load != nil {
		return target.Result{}, m.load
	}
	if m.exact && img.Recompressed() {
		return target.Result{}, fmt.Errorf("%w: too old", target.ErrRecompressed)
	}
	if err := image.Encode(ctx, io.Discard, img); err != nil {
		return target.Result{}, fmt.Errorf("sending %s: %w", ref, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.images[ref] = id
	result := target.Result{Outcome: target.Loaded, Replaced: was}
	if m.unresolvable && img.Reference().Digest() != "" {
		result.Unresolvable = []string{img.Reference().WithDigest(img.Reference().Digest())}
	}
	return result, nil
}

// bench is a primed store, a registry behind it, and a lane.
type bench struct {
	registry *regtest.Registry
	store    *dir.Store
	target   *memory
	options  lane.Options
}

// newBench primes nothing yet: prime does.
func newBench(t *testing.T, refs ...string) *bench {
	t.Helper()
	b := &bench{
		registry: regtest.New(regtest.Options{}),
		target:   &memory{platform: linux, images: map[string]string{}},
	}
	b.registry.Add("library/redis:7", regtest.NewIndex(regtest.RandomImage(1, 2, 50_000)))
	b.registry.Add("library/nginx:1", regtest.RandomImage(2, 3, 5_000))
	var err error
	b.store, err = dir.New(t.TempDir())
	require.NoError(t, err)
	client := registry.New(registry.Options{
		Transport: b.registry.Transport("192.0.2.1"), Policy: retry.Policy{Timeout: time.Minute},
		Insecure: func(string) bool { return true },
	})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	b.options = lane.Options{
		Store: b.store, Registry: client, Targets: []lane.Target{{Name: "memory", Target: b.target}},
	}
	for _, ref := range refs {
		b.options.Pins = append(b.options.Pins, pin.Pin{Reference: reference.MustParse(ref)})
	}
	return b
}

func (b *bench) prime(t *testing.T) {
	t.Helper()
	done := prime.Run(t.Context(), prime.Options{
		Items: lane.Items(b.options.Pins, linux, "", cachekey.V1), Store: b.store, Registry: b.options.Registry.(*registry.Client),
		MaxAge: prime.DefaultMaxAge,
	})
	require.Equal(t, report.Success, done.Result, done.Problems)
	b.registry.ResetLog()
}

// corrupt flips one byte of an entry, counted from its end.
func (b *bench) corrupt(t *testing.T, ref string, fromEnd int) {
	t.Helper()
	path := b.store.Path(lane.Items([]pin.Pin{{Reference: reference.MustParse(ref)}}, linux, "", cachekey.V1)[0].Key)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[len(data)-fromEnd] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o644))
}

func TestPrimedLaneLoadsWithoutTheRegistry(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7", "nginx:1")
	b.prime(t)
	got := lane.Run(t.Context(), b.options)
	require.Equal(t, report.Success, got.Result, got.Problems)
	require.Empty(t, got.Problems)
	require.Len(t, b.target.images, 2)
	require.Equal(t, report.Cache, got.Images[0].Source)
	require.Empty(t, b.registry.Log())

	again := lane.Run(t.Context(), b.options)
	require.Equal(t, report.Present, again.Images[0].Source)
	require.Equal(t, "present", again.Images[0].Outcome)
}

func TestWhatTheStoreCannotGiveIsPulled(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil func(*testing.T, *bench)
		kind  string
	}{
		"a miss":         {func(*testing.T, *bench) {}, "miss"},
		"a corrupt head": {func(t *testing.T, b *bench) { b.prime(t); b.corrupt(t, "redis:7", 53_000*2) }, "corrupt"},
		"a corrupt layer": {func(t *testing.T, b *bench) {
			b.prime(t)
			b.corrupt(t, "redis:7", 4096)
		}, "corrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "redis:7")
			test.spoil(t, b)
			got := lane.Run(t.Context(), b.options)
			require.Equal(t, report.Degraded, got.Result)
			require.Len(t, got.Problems, 1, "one warning an image")
			p := got.Problems[0]
			require.Equal(t, report.Warning, p.Severity)
			require.Equal(t, test.kind, p.Kind, p.Message)
			require.Contains(t, p.Message, "redis:7: pulled from the registry instead of the store")
			require.Equal(t, report.Registry, got.Images[0].Source)
			require.Len(t, b.target.images, 1)
		})
	}
}

func TestWhatTheStoreCannotGiveMayBeThereAlready(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7")
	lane.Run(t.Context(), b.options)
	got := lane.Run(t.Context(), b.options)
	require.Equal(t, report.Present, got.Images[0].Source)
	require.Len(t, got.Problems, 1)
	require.Contains(t, got.Problems[0].Message, "redis:7: there already, as the registry says and not the store: opening ")
}

func TestOnMissWarnAndFailAskNoRegistry(t *testing.T) {
	t.Parallel()
	for onMiss, want := range map[lane.OnMiss]struct {
		result   report.Result
		severity report.Severity
	}{
		lane.Warn: {report.Degraded, report.Warning},
		lane.Fail: {report.Failure, report.Error},
	} {
		t.Run(string(onMiss), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "redis:7")
			b.options.OnMiss = onMiss
			got := lane.Run(t.Context(), b.options)
			require.Equal(t, want.result, got.Result)
			require.Equal(t, want.severity, got.Problems[0].Severity)
			require.Empty(t, b.registry.Log())
		})
	}
}

func TestTargetThatFailsIsNotPulledFor(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7")
	b.prime(t)
	b.target.load = errors.New("no space left on device")
	got := lane.Run(t.Context(), b.options)
	require.Equal(t, report.Degraded, got.Result)
	require.Equal(t, "load", got.Problems[0].Kind)
	require.Contains(t, got.Problems[0].Message, "redis:7: loading into memory: no space left on device")
	require.Empty(t, b.registry.Log(), "another source does not help a full disk")
}

// A target that can't take recompressed layers gets the registry's own.
func TestTargetThatNeedsTheRegistrysLayersIsPulledFor(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7")
	b.options.Format = cachekey.V2
	layers := recompress.New(recompress.Options{Dir: t.TempDir()})
	t.Cleanup(func() { require.NoError(t, layers.Close()) })
	done := prime.Run(t.Context(), prime.Options{
		Items: lane.Items(b.options.Pins, linux, "", cachekey.V2), Store: b.store, Registry: b.options.Registry.(*registry.Client), Recompress: layers,
	})
	require.Equal(t, report.Success, done.Result, done.Problems)
	b.target.exact = true
	got := lane.Run(t.Context(), b.options)
	require.Equal(t, report.Degraded, got.Result)
	require.Equal(t, report.Registry, got.Images[0].Source)
	require.Len(t, got.Problems, 1)
	require.Equal(t, "layers", got.Problems[0].Kind)
	require.Equal(t, "redis:7: pulled from the registry instead of the store: loading into memory: no layers recompressed with zstd: too old", got.Problems[0].Message)
	require.Equal(t, "prime and load with layers: exact what such a target needs", got.Problems[0].Hint)

	b.options.Format = cachekey.V1
	moved := lane.Items(b.options.Pins, linux, "", cachekey.V1)[0].Key
	require.NoError(t, os.Rename(filepath.Dir(b.store.Path(got.Images[0].Key)), filepath.Dir(b.store.Path(moved))))
	b.target.images = map[string]string{}
	got = lane.Run(t.Context(), b.options)
	require.Equal(t, report.Registry, got.Images[0].Source)
	require.Equal(t, "corrupt", got.Problems[0].Kind)
	require.Contains(t, got.Problems[0].Message, "its layers are not the registry's own, and its key says that they are")
	require.NoError(t, os.Rename(filepath.Dir(b.store.Path(moved)), filepath.Dir(b.store.Path(done.Images[0].Key))))

	b.options.Format = cachekey.V2
	b.target.exact, b.target.images = false, map[string]string{}
	b.registry.ResetLog()
	got = lane.Run(t.Context(), b.options)
	require.Equal(t, report.Success, got.Result, got.Problems)
	require.Empty(t, b.registry.Log())
}

func TestUnavailableTargetIsSaidOnceAndNamesTheImages(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7", "nginx:1")
	b.options.System = "linux"
	b.target.unavailable = fmt.Errorf("%w: no daemon", target.ErrUnavailable)
	got := lane.Run(t.Context(), b.options)
	require.Equal(t, report.Degraded, got.Result)
	require.Len(t, got.Problems, 1)
	require.Equal(t, report.Warning, got.Problems[0].Severity)
	require.Contains(t, got.Problems[0].Message, "no daemon")
	require.Contains(t, got.Problems[0].Message, "redis:7, nginx:1")
	require.Equal(t, "skipped", got.Images[0].Outcome)
}

func TestUnavailableTargetIsANoticeWhereThereIsNoneAsARule(t *testing.T) {
	t.Parallel()
	for _, system := range []string{"darwin", "windows"} {
		b := newBench(t, "redis:7", "nginx:1")
		b.options.System = system
		b.target.unavailable = fmt.Errorf("%w: no daemon", target.ErrUnavailable)
		got := lane.Run(t.Context(), b.options)
		require.Equal(t, report.Degraded, got.Result, "the outputs say that nothing was loaded")
		require.Len(t, got.Problems, 1)
		require.Equal(t, report.Notice, got.Problems[0].Severity)
		require.Contains(t, got.Problems[0].Message, "redis:7, nginx:1")
		require.Contains(t, got.Problems[0].Hint, "on "+system)
		require.Empty(t, b.registry.Log(), "there is nothing to pull for")

		b.options.OnMiss = lane.Fail
		got = lane.Run(t.Context(), b.options)
		require.Equal(t, report.Failure, got.Result)
		require.Equal(t, report.Error, got.Problems[0].Severity)
	}
}

func TestMissAndFailedPullAreOneProblem(t *testing.T) {
	t.Parallel()
	b := newBench(t, "absent:1")
	got := lane.Run(t.Context(), b.options)
	require.Equal(t, report.Degraded, got.Result)
	require.Len(t, got.Problems, 1)
	require.Contains(t, got.Problems[0].Message, "not found")
	require.Contains(t, got.Problems[0].Message, "pulling it instead")
}

func TestReplacedImageIsANotice(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7")
	b.prime(t)
	b.target.images["docker.io/library/redis:7"] = "sha256:stale"
	got := lane.Run(t.Context(), b.options)
	require.Equal(t, report.Success, got.Result, "a notice degrades nothing")
	require.Equal(t, report.Notice, got.Problems[0].Severity)
	require.Contains(t, got.Problems[0].Message, "sha256:stale")
}

func TestDigestsThatATargetNeverResolvesAreWarnedOfOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.target.unresolvable = true
	for seed, name := range []string{"library/a:1", "library/b:1"} {
		digest := b.registry.Add(name, regtest.RandomImage(uint64(seed+10), 1, 100))
		b.options.Pins = append(b.options.Pins, pin.Pin{Reference: reference.MustParse(name + "@" + digest.String())})
	}
	b.prime(t)
	got := lane.Run(t.Context(), b.options)
	require.Len(t, got.Problems, 1)
	require.Equal(t, "digest", got.Problems[0].Kind)
	require.Contains(t, got.Problems[0].Message, "docker.io/library/a@sha256:")
	require.Contains(t, got.Problems[0].Message, "docker.io/library/b@sha256:")
	require.NotEmpty(t, got.Problems[0].Hint)
}

func TestABugOfOursIsAWarning(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7")
	b.prime(t)
	b.target.panics = true
	got := lane.Run(t.Context(), b.options)
	require.Equal(t, report.Degraded, got.Result)
	require.Contains(t, got.Problems[0].Message, "internal error: a bug")
}

func TestPinForOtherPlatformsIsNotForThisLane(t *testing.T) {
	t.Parallel()
	arm := platform.Platform{OS: "linux", Architecture: "arm64"}
	pins := []pin.Pin{
		{Reference: reference.MustParse("a:1")},
		{Reference: reference.MustParse("b:1"), Platforms: []platform.Platform{arm}},
		{Reference: reference.MustParse("c:1"), Platforms: []platform.Platform{arm, linux}},
	}
	var names []string
	for _, item := range lane.Items(pins, linux, "", cachekey.V1) {
		names = append(names, item.Pin.Reference.Familiar())
		require.Equal(t, linux, item.Platform)
	}
	require.Equal(t, []string{"a:1", "c:1"}, names)
}

func TestNoTargetSaysWhatIsThere(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7")
	b.options.Targets = []lane.Target{{Name: "none", Target: target.None{}}}
	got := lane.Run(t.Context(), b.options)
	require.Equal(t, report.Degraded, got.Result)
	require.Empty(t, b.registry.Log(), "there is nothing to pull for")

	b.prime(t)
	got = lane.Run(t.Context(), b.options)
	require.Equal(t, report.Success, got.Result)
	require.Equal(t, "found", got.Images[0].Outcome)
}

func TestMissingStoreIsSaidOnceAndEverythingIsPulled(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7", "nginx:1")
	b.options.Store, b.options.StoreDown = nil, errors.New("no token")
	got := lane.Run(t.Context(), b.options)
	require.Equal(t, report.Degraded, got.Result)
	require.Len(t, got.Problems, 1)
	require.Contains(t, got.Problems[0].Message, "no token; without it: nginx:1, redis:7")
	require.Len(t, b.target.images, 2)
}

// dead is a store that does not answer.
type dead struct{ asked atomic.Int32 }

func (*dead) Stat(context.Context, string) (store.Entry, error) {
	return store.Entry{}, errors.New("unused")
}

func (d *dead) Open(context.Context, string) (image.Image, error) {
	d.asked.Add(1)
	return image.Image{}, errors.New("connection refused")
}

func (*dead) Save(context.Context, string, image.Image) error { return errors.New("unused") }

func TestDeadStoreIsAskedAtOnceAndToldOfOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7", "nginx:1")
	for i := range 98 {
		b.options.Pins = append(b.options.Pins, pin.Pin{Reference: reference.MustParse(fmt.Sprintf("absent:%d", i))})
	}
	down := &dead{}
	b.options.Store, b.options.OnMiss = down, lane.Warn
	got := lane.Run(t.Context(), b.options)
	require.Equal(t, report.Degraded, got.Result)
	require.LessOrEqual(t, down.asked.Load(), int32(16), "what the first learned holds for those that follow")
	require.Len(t, got.Problems, 1)
	require.Contains(t, got.Problems[0].Message, "connection refused; without it: absent:0, ")

	b.options.Pins, b.options.OnMiss = b.options.Pins[:2], lane.Pull
	got = lane.Run(t.Context(), b.options)
	require.Len(t, got.Problems, 1)
	require.Contains(t, got.Problems[0].Message, "connection refused; without it: nginx:1, redis:7")
	require.Len(t, b.target.images, 2, "and all are pulled")
}

func TestTargetIsNotAskedForNothing(t *testing.T) {
	t.Parallel()
	arm := []platform.Platform{{OS: "linux", Architecture: "arm64"}}
	for name, test := range map[string]struct {
		pins     []pin.Pin
		problems int
	}{
		"no pins":                   {nil, 0},
		"no pins for this platform": {[]pin.Pin{{Reference: reference.MustParse("a:1"), Platforms: arm}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.options.Pins, b.options.OnMiss = test.pins, lane.Fail
			b.target.unavailable = fmt.Errorf("%w: no daemon", target.ErrUnavailable)
			got := lane.Run(t.Context(), b.options)
			require.Equal(t, report.Success, got.Result)
			require.Len(t, got.Problems, test.problems)
			for _, p := range got.Problems {
				require.Equal(t, report.Notice, p.Severity)
				require.Contains(t, p.Message, "a:1")
			}
		})
	}
}
