package result_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/bench/internal/link"
	"github.com/pullonce/pullonce/bench/internal/result"
	"github.com/pullonce/pullonce/bench/internal/result/resulttest"
	"github.com/pullonce/pullonce/bench/internal/sample"
)

var update = flag.Bool("update", false, "write testdata/report.txt anew")

func TestMedian(t *testing.T) {
	t.Parallel()
	for want, figures := range map[time.Duration][]time.Duration{0: nil, 7: {7}, 3: {9, 1, 3}, 25: {30, 10, 20, 40}} {
		given := append([]time.Duration(nil), figures...)
		require.Equal(t, want, result.Median(figures))
		require.Equal(t, given, figures, "it leaves them as they were")
	}
	require.InDelta(t, 2.5, result.Median([]float64{4, 1}), 1e-9)
}

func TestRatioIsThatOfMediansWithTheRoundsSpread(t *testing.T) {
	t.Parallel()
	a := resulttest.Series("a", 2*time.Second, 3*time.Second, 10*time.Second)
	b := resulttest.Series("b", 4*time.Second, 4*time.Second, 5*time.Second)
	require.Equal(t, result.Ratio{Median: 0.75, Least: 0.5, Most: 2}, result.RatioOf(a, b))
}

// checks are those of a report by where and claim.
func checks(r result.Report) map[string]result.Check {
	all := map[string]result.Check{}
	for _, c := range result.Judge(r) {
		all[c.Where+": "+c.Claim] = c
	}
	return all
}

func TestJudgeHoldsLanesToTheirLimits(t *testing.T) {
	t.Parallel()
	for target, limits := range map[string][2]float64{"docker": {0.90, 0.85}, "docker-containerd": {0.85, 0.60}, "kind": {0.75, 0.50}} {
		for _, image := range []string{"M", "L"} {
			found := checks(result.Report{Cases: []result.Case{resulttest.Lane(image, target)}})
			where := "lane " + image + ", " + target + " on tmpfs: "
			require.InDelta(t, limits[0], found[where+"pullonce to hand-written"].Limit, 0)
			require.InDelta(t, limits[1], found[where+"pullonce-zstd to hand-written"].Limit, 0)
		}
	}
	found := checks(result.Report{Cases: []result.Case{resulttest.Lane("set", "kind")}})
	require.InDelta(t, 0.70, found["lane set, kind on tmpfs: pullonce to hand-written"].Limit, 0)
	require.InDelta(t, 0.50, found["lane set, kind on tmpfs: pullonce-zstd to hand-written"].Limit, 0)
	require.NotContains(t, checks(result.Report{Cases: []result.Case{resulttest.Lane("small", "kind")}}), "lane small, kind on tmpfs: pullonce to hand-written")
}

func TestJudgeSaysWhatIsMet(t *testing.T) {
	t.Parallel()
	lane := func(change func(c *result.Case)) result.Report {
		c := resulttest.Lane("M", "docker")
		change(&c)
		return result.Report{Settings: result.Settings{Bandwidth: 100_000_000}, Cases: []result.Case{c}}
	}
	for name, test := range map[string]struct {
		change func(c *result.Case)
		claim  string
		met    bool
	}{
		"faster":           {func(*result.Case) {}, "pullonce to hand-written", true},
		"not fast enough":  {func(c *result.Case) { resulttest.Slow(c, "pullonce", 4*time.Second) }, "pullonce to hand-written", false},
		"own share":        {func(*result.Case) {}, "pullonce beyond plain-load", true},
		"too much of that": {func(c *result.Case) { resulttest.Slow(c, "pullonce", 5*time.Second) }, "pullonce beyond plain-load", false},
		"memory":           {func(*result.Case) {}, "pullonce has in use", true},
		"too much memory": {func(c *result.Case) {
			resulttest.Change(c, "pullonce", func(s *result.Sample) { s.PeakRSS = 97 << 20 })
		}, "pullonce has in use", false},
		"writes": {func(c *result.Case) {
			resulttest.Change(c, "pullonce", func(s *result.Sample) { s.Written = 10_000_000 })
		}, "pullonce writes to disk", false},
		"a contender that failed": {func(c *result.Case) { c.Series[0].Problem = "it failed" }, "pullonce to hand-written", false},
		"our own failure":         {func(c *result.Case) { c.Series[1].Problem = "it failed" }, "pullonce has in use", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := lane(test.change)
			check, ok := checks(r)["lane M, docker on tmpfs: "+test.claim]
			require.True(t, ok)
			require.Equal(t, test.met, check.Met, check)
			r.Checks = []result.Check{check}
			require.Equal(t, test.met, r.Met())
		})
	}
}

// The own share of a lane may be half a second, and what the line takes for the transfer.
func TestTheLimitOfTheOwnShareHasTheTransfer(t *testing.T) {
	t.Parallel()
	c := resulttest.Lane("M", "docker")
	resulttest.Change(&c, "pullonce", func(s *result.Sample) { s.Store = link.Counts{Down: 120_000_000} })
	found := checks(result.Report{Settings: result.Settings{Bandwidth: 100_000_000}, Cases: []result.Case{c}})
	require.InDelta(t, 1.7, found["lane M, docker on tmpfs: pullonce beyond plain-load"].Limit, 1e-9)
}

func TestJudgeHoldsPrimes(t *testing.T) {
	t.Parallel()
	cold := result.Case{Mode: "prime-cold", Image: "M", Target: "docker", Data: "disk", Series: []result.Series{
		resulttest.Series("hand-written", 10*time.Second), resulttest.Series("crane", 5*time.Second), resulttest.Series("pullonce", 5*time.Second),
	}}
	for i, requests := range []int64{12, 9, 9} {
		cold.Series[i].Samples[0].Registry.Requests = requests
	}
	warm := result.Case{Mode: "prime-warm", Image: "M", Target: "docker", Data: "disk", Series: []result.Series{
		resulttest.Series("hand-written", 4*time.Second), resulttest.Series("pullonce", 100*time.Millisecond),
	}}
	five := warm
	five.Image = "five"
	found := checks(result.Report{Cases: []result.Case{cold, warm, five}})
	for claim, met := range map[string]bool{
		"prime-cold M, docker on disk: pullonce to hand-written":                                true,
		"prime-cold M, docker on disk: pullonce to crane":                                       true,
		"prime-cold M, docker on disk: pullonce asks the registry less often than hand-written": true,
		"prime-cold M, docker on disk: pullonce asks the registry less often than crane":        false,
		"prime-cold M, docker on disk: pullonce makes fewer requests in all than crane":         false,
		"prime-warm M, docker on disk: pullonce to hand-written":                                true,
		"prime-warm five, docker on disk: a warm prime of five images":                          true,
	} {
		require.Contains(t, found, claim)
		require.Equal(t, met, found[claim].Met, claim)
	}
}

func TestOthersIsTheirShareOfTheCores(t *testing.T) {
	t.Parallel()
	require.Zero(t, result.Report{}.Others())
	c := result.Case{Series: []result.Series{resulttest.Series("a", 2*time.Second, 2*time.Second)}}
	resulttest.Change(&c, "a", func(s *result.Sample) { s.OtherCPU = time.Second })
	require.InDelta(t, 0.25, result.Report{Machine: result.Machine{Cores: 2}, Cases: []result.Case{c}}.Others(), 1e-9)
}

func TestJoin(t *testing.T) {
	t.Parallel()
	first, second := resulttest.Report(), resulttest.Report()
	second.Machine.FileSystems = map[string]string{"disk": "ext4"}
	second.Images = map[string][]sample.Image{"small": {{Repository: "bench/small"}}}
	joined, err := result.Join(first, second)
	require.NoError(t, err)
	require.Len(t, joined.Cases, 4)
	require.Equal(t, map[string]string{"tmpfs": "tmpfs", "disk": "ext4"}, joined.Machine.FileSystems)
	require.Len(t, joined.Images, 2)
	require.Equal(t, result.Judge(joined), joined.Checks)
	require.Equal(t, resulttest.Report(), first, "it leaves them as they were")

	_, err = result.Join()
	require.Error(t, err)
	for name, change := range map[string]func(*result.Report){
		"machine": func(r *result.Report) { r.Machine.Cores++ },
		"program": func(r *result.Report) { r.Programs = map[string]string{"crane": "v1"} },
		"line":    func(r *result.Report) { r.Settings.Latency = 0 },
		"kept":    func(r *result.Report) { r.Settings.Kept = false },
		"image":   func(r *result.Report) { r.Images["M"][0].Manifest = "sha256:5678" },
	} {
		other := resulttest.Report()
		change(&other)
		_, err := result.Join(first, other)
		require.ErrorContains(t, err, "different machines, programs, images", name)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	r := resulttest.Report()
	r.Checks = result.Judge(r)
	require.NoError(t, r.Write(&b))
	resulttest.Golden(t, filepath.Join("testdata", "report.txt"), b.String(), *update)
}

func TestWriteTellsOfAFullDisk(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		full, err = os.Open(os.DevNull) // not to be written to
	}
	require.NoError(t, err)
	defer full.Close()
	require.Error(t, resulttest.Report().Write(full))
}
