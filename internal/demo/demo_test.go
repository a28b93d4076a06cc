package demo_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/demo"
	"github.com/pullonce/pullonce/internal/regtest"
)

// run runs the demo in fake time, without a network.
func run(t *testing.T, lanes int) demo.Result {
	t.Helper()
	result, err := demo.Run(t.Context(), demo.Options{
		Lanes: lanes, Dir: t.TempDir(),
		Serve: func(reg *regtest.Registry) (string, http.RoundTripper, func() error, error) {
			return "127.0.0.1:5000", reg.Transport("192.0.2.1"), func() error { return nil }, nil
		},
	})
	require.NoError(t, err)
	return result
}

func TestLanesFailAloneAndNotWhenPrimed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := run(t, demo.DefaultLanes)
		require.NoError(t, got.Check())
		require.Positive(t, got.Alone.Failed, "the throttle must bite, or the demo shows nothing")
		require.Positive(t, got.Alone.Throttled)
		require.Zero(t, got.Primed.Failed)
		require.Zero(t, got.Primed.ByLanes)
		require.Equal(t, 16, got.Primed.Requests, "index, manifest and config of three images, and seven different layers")

		var table strings.Builder
		require.NoError(t, got.WriteTable(&table))
		require.Contains(t, table.String(), "0 of 24")
	})
}

func TestAFewLanesPassTheThrottle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := run(t, 4)
		require.Zero(t, got.Alone.Failed, "the lanes fail for their number and for nothing else")
		require.Zero(t, got.Alone.Throttled)
	})
}

func TestCheckSaysWhatWasNotKept(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		primed demo.Half
		want   string
	}{
		"a failed lane":    {demo.Half{Lanes: 2, Failed: 1, Requests: 9}, "1 of 2 primed lanes failed"},
		"a lane that asks": {demo.Half{Lanes: 2, ByLanes: 3, Requests: 9}, "primed lanes made 3 requests"},
		"no prime at all":  {demo.Half{Lanes: 2}, "the registry saw no prime"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, demo.Result{Primed: test.primed}.Check(), test.want)
		})
	}
}
