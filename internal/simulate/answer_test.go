package simulate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/simulate"
)

// TestWilson holds the interval to values from the literature: Newcombe, "Two-sided confidence intervals for the single
// proportion", Statistics in Medicine 17 (1998), table I, method 3.
func TestWilson(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hits, n   int
		low, high float64
	}{
		{81, 263, 0.2553, 0.3662}, {15, 148, 0.0624, 0.1605}, {0, 20, 0, 0.1611}, {1, 29, 0.0061, 0.1718},
	} {
		got := simulate.Wilson(c.hits, c.n)
		require.InDelta(t, c.low, got.Low, 0.00005, c)
		require.InDelta(t, c.high, got.High, 0.00005, c)
		require.Equal(t, float64(c.hits)/float64(c.n), got.Value)
	}
	all := simulate.Wilson(20, 20)
	require.InDelta(t, 1-0.1611, all.Low, 0.00005)
	require.InDelta(t, 1, all.High, 1e-12)
	require.Equal(t, simulate.Interval{High: 1}, simulate.Wilson(0, 0))
}

func TestFiguresAreWrittenAsPeopleReadThem(t *testing.T) {
	t.Parallel()
	for n, want := range map[float64]string{0: "0", 0.0123: "0.012", 7: "7", 64.93: "64.9", 264.4: "264", 1234567: "1,234,567", 1000: "1,000"} {
		require.Equal(t, want, simulate.Count(n))
	}
	for share, want := range map[float64]string{0: "0%", 0.005: "0.5%", 0.042: "4.2%", 0.126: "13%", 0.99: "99%", 0.9951: "99.5%", 0.99999: "100%", 1: "100%"} {
		require.Equal(t, want, simulate.Percent(share))
	}
}
