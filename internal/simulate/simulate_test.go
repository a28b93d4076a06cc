package simulate_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/goldentest"
	"github.com/pullonce/pullonce/internal/simulate"
)

// unlimited is a small setting that no limit touches.
func unlimited() simulate.Setting {
	s := simulate.Defaults()
	s.Lanes, s.Images = 20, 3
	s.Throttle = simulate.Throttle{Requests: 1_000_000, Window: time.Second, Burst: 1_000_000, IPs: 4}
	return s
}

// once is a run of one strategy under seed 1.
func once(t *testing.T, s simulate.Setting, strategy simulate.Strategy) simulate.Outcome {
	return simulate.Once(t.Context(), s, strategy, simulate.Places(s, 1), 1)
}

func TestWithoutALimitEveryRequestIsMadeOnce(t *testing.T) {
	t.Parallel()
	s := unlimited()
	const perImage = 2 + 1 + 6 // index and manifest, config, layers
	for strategy, pulls := range map[simulate.Strategy]int{simulate.Pull: 20 * 3, simulate.PullDeadline: 20 * 3, simulate.Prime: 3} {
		out := once(t, s, strategy)
		require.Zero(t, out.Failed, strategy)
		require.Zero(t, out.Throttled, strategy)
		require.Equal(t, pulls*perImage, out.Requests, strategy)
		require.Equal(t, int64(pulls)*s.Image.Size, out.RegistryBytes, strategy)
		require.Len(t, out.Ends, 20, strategy)
	}
	out := once(t, s, simulate.Prime)
	require.Equal(t, 20*3*s.Image.Size, out.CacheBytes)
	require.GreaterOrEqual(t, out.CacheRequests, 20*3+3*3, "a look-up by each lane; by prime a look-up, a reservation and at least one look afterwards")
}

func TestTimeIsWhatRequestsAndBytesTake(t *testing.T) {
	t.Parallel()
	s := unlimited()
	s.Lanes, s.Images, s.Spread = 1, 2, 0
	s.Image, s.Bandwidth, s.Latency = simulate.Image{Size: 100_000_000, Layers: 2}, 50_000_000, 100*time.Millisecond
	out := once(t, s, simulate.Pull)
	require.InDelta(t, (2*2*time.Second + 2*5*100*time.Millisecond).Seconds(), out.Ends[0].Seconds(), 0.5)
}

func TestTheSameSeedGivesTheSameAnswer(t *testing.T) {
	t.Parallel()
	options := simulate.Options{Setting: simulate.Defaults(), Seed: 5, Runs: 20}
	first, err := simulate.Run(t.Context(), options)
	require.NoError(t, err)
	second, err := simulate.Run(t.Context(), options)
	require.NoError(t, err)
	require.Equal(t, first, second)
	options.Seed = 1000
	third, err := simulate.Run(t.Context(), options)
	require.NoError(t, err)
	require.NotEqual(t, first.Strategies, third.Strategies)
}

func TestPrimeMakesTheSameRequestsAtAnyWidth(t *testing.T) {
	t.Parallel()
	s := simulate.Defaults()
	for _, lanes := range []int{1, 10, 256} {
		s.Lanes = lanes
		require.Equal(t, 45, once(t, s, simulate.Prime).Requests, lanes)
	}
}

func TestAnAccountIsUsedUpForEveryLane(t *testing.T) {
	t.Parallel()
	s := simulate.Defaults()
	preset, ok := simulate.FindPreset("hub-authenticated")
	require.True(t, ok)
	s.Throttle = preset.Throttle
	out := once(t, s, simulate.Pull)
	require.LessOrEqual(t, out.RegistryBytes, 100*s.Image.Size, "two hundred documents are a hundred images")
	require.Equal(t, 100, out.Failed, "no lane has five images before the quota is used up")
}

func TestWhatOthersHaveTakenIsMissing(t *testing.T) {
	t.Parallel()
	s := unlimited()
	s.Throttle = simulate.Throttle{Requests: 120, Window: 24 * time.Hour, Burst: 120, IPs: 1}
	require.Zero(t, once(t, s, simulate.Pull).Failed, "twenty lanes of three images are just within it")
	s.Throttle.Taken = 1
	require.Positive(t, once(t, s, simulate.Pull).Failed)
}

func TestAFailedPrimeIsEveryLane(t *testing.T) {
	t.Parallel()
	s := simulate.Defaults()
	s.Throttle.Requests, s.Throttle.Burst, s.Throttle.Window = 1, 1, 24*time.Hour
	out := once(t, s, simulate.Prime)
	require.True(t, out.PrimeFailed)
	require.Equal(t, s.Lanes, out.Failed)
	require.Empty(t, out.Ends)
	require.Zero(t, out.CacheBytes)
}

func TestTheCacheServiceHasLimitsOfItsOwn(t *testing.T) {
	t.Parallel()
	s := unlimited()
	s.Cache.Lookups = 30
	slow := once(t, s, simulate.Prime)
	require.Positive(t, slow.CacheThrottled)
	require.Zero(t, slow.Failed, "lanes wait for their turn: 60 look-ups at 30 a minute")
	require.Equal(t, 3*9, slow.Requests, "and nobody asks the registry meanwhile")

	s.Cache.Lookups = 2
	broken := once(t, s, simulate.Prime)
	require.Greater(t, broken.Requests, 3*9, "who has waited ten minutes for a look-up pulls instead")

	s.Cache = simulate.Cache{Uploads: 1, Lookups: 1000}
	require.Positive(t, once(t, s, simulate.Prime).CacheThrottled, "three entries, one upload a minute")
}

func TestAnEntryThatNeverShowsUpFailsPrime(t *testing.T) {
	t.Parallel()
	s := unlimited()
	s.Cache.Lag = time.Hour
	require.True(t, once(t, s, simulate.Prime).PrimeFailed)
}

func TestTheEndOfTheContextEndsTheWork(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	s := simulate.Defaults()
	s.Lanes = simulate.MaxLanes
	_, err := simulate.Run(ctx, simulate.Options{Setting: s, Runs: 100_000})
	require.EqualError(t, err, "enough")
}

func TestWhatMakesNoSenseIsNamed(t *testing.T) {
	t.Parallel()
	require.NoError(t, simulate.Defaults().Validate())
	_, err := simulate.Run(t.Context(), simulate.Options{})
	for _, name := range []string{"lanes", "images", "layers", "rate", "burst", "egress IPs", "uploads", "look-ups", "window", "lane timeout", "prime timeout", "bandwidth"} {
		require.ErrorContains(t, err, name+": ")
	}
}

func TestPresetsSayWhereTheyAreFrom(t *testing.T) {
	t.Parallel()
	for _, preset := range simulate.Presets() {
		s := simulate.Defaults()
		s.Throttle = preset.Throttle
		require.NoError(t, s.Validate(), preset.Name)
		require.True(t, strings.HasPrefix(preset.Source, "https://"), preset.Name)
		_, err := time.Parse(time.DateOnly, preset.Read)
		require.NoError(t, err, preset.Name)
		require.NotEmpty(t, preset.Assumed, preset.Name)
		require.Equal(t, strings.HasPrefix(preset.Name, "hub"), preset.Exempt != "", preset.Name)
	}
}

// TestTheAnswerReadsTheSameInEveryForm holds table and JSON to goldens.
func TestTheAnswerReadsTheSameInEveryForm(t *testing.T) {
	t.Parallel()
	s := simulate.Defaults()
	s.Lanes = 40
	preset, ok := simulate.FindPreset("ecr-public")
	require.True(t, ok)
	s.Throttle = preset.Throttle
	s.Throttle.Taken = 0.4
	answer, err := simulate.Run(t.Context(), simulate.Options{Setting: s, Preset: &preset, Seed: 1, Runs: 50})
	require.NoError(t, err)

	var table, document strings.Builder
	require.NoError(t, answer.WriteTable(&table))
	golden := filepath.Join("testdata", "table.txt")
	goldentest.Equal(t, golden, table.String())

	require.NoError(t, answer.WriteJSON(&document))
	var again simulate.Answer
	require.NoError(t, json.Unmarshal([]byte(document.String()), &again))
	require.Equal(t, answer, again, "nothing is lost on the way")
	require.Equal(t, 40, again.Widths[len(again.Widths)-1].Lanes)
}
