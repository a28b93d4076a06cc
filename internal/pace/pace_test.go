package pace_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/pace"
)

// at is a moment of these tests, counted from noon.
func at(d time.Duration) time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).Add(d) }

// starts reserves n starts, all asked for at one moment.
func starts(p *pace.Pacer, now time.Duration, n int) []time.Duration {
	got := make([]time.Duration, n)
	for i := range got {
		got[i] = p.Reserve(at(now)).Sub(at(0))
	}
	return got
}

func TestRequestsStartAtOnceUntilTheHostSaysOtherwise(t *testing.T) {
	t.Parallel()
	const s = time.Second
	var p pace.Pacer
	require.Equal(t, []time.Duration{s, s, s}, starts(&p, s, 3))
	require.LessOrEqual(t, p.Cooling(at(s)), time.Duration(0))

	p.CoolDown(at(2*s), 10*s)
	p.CoolDown(at(2*s), 3*s) // ends earlier: changes nothing
	require.Equal(t, 9*s, p.Cooling(at(3*s)))
	require.Equal(t, []time.Duration{12 * s, 12*s + pace.Spread, 12*s + 2*pace.Spread}, starts(&p, 3*s, 3), "one by one, once it is over")
	require.Equal(t, []time.Duration{28 * s, 28 * s}, starts(&p, 28*s, 2), "and no longer than the recovery")
}

func TestAnIntervalHoldsAtAllTimes(t *testing.T) {
	t.Parallel()
	const s = time.Second
	var p pace.Pacer
	p.SetInterval(pace.ECRPublic)
	require.Equal(t, []time.Duration{0, s, 2 * s}, starts(&p, 0, 3))
	p.SetInterval(0)
	require.Equal(t, []time.Duration{3 * s, 3 * s}, starts(&p, s, 2))
}
