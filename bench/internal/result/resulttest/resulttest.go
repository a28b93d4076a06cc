// Package resulttest has reports for tests, and compares what is made of them with files.
package resulttest

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/bench/internal/link"
	"github.com/pullonce/pullonce/bench/internal/measure"
	"github.com/pullonce/pullonce/bench/internal/result"
	"github.com/pullonce/pullonce/bench/internal/sample"
)

// Series is a contender whose rounds took so long.
func Series(name string, walls ...time.Duration) result.Series {
	s := result.Series{Contender: name}
	for i, wall := range walls {
		s.Samples = append(s.Samples, result.Sample{Round: i + 1, Usage: measure.Usage{
			Wall: wall, User: wall / 4, System: wall / 8, PeakRSS: 50 << 20,
		}})
	}
	return s
}

// Lane is a case in which all limits are met.
func Lane(image, target string) result.Case {
	return result.Case{Mode: "lane", Image: image, Target: target, Data: "tmpfs", Series: []result.Series{
		Series("hand-written", 4*time.Second, 4100*time.Millisecond, 3900*time.Millisecond),
		Series("pullonce", 1800*time.Millisecond, 2*time.Second, 2200*time.Millisecond),
		Series("pullonce-zstd", 1300*time.Millisecond, 1400*time.Millisecond, 1500*time.Millisecond),
		Series("plain-load", 1600*time.Millisecond, 1700*time.Millisecond, 1800*time.Millisecond),
		{Contender: "skopeo-daemon", Problem: "round 1: the client is too old\nand more"},
		{Contender: "crane"},
	}}
}

// Slow makes each round of a contender take so long.
func Slow(c *result.Case, name string, wall time.Duration) {
	Change(c, name, func(s *result.Sample) { s.Wall = wall })
}

// Change changes each round of a contender.
func Change(c *result.Case, name string, change func(*result.Sample)) {
	for _, s := range c.Series {
		for i := range s.Samples {
			if s.Contender == name {
				change(&s.Samples[i])
			}
		}
	}
}

// Report is a report of two lanes.
func Report() result.Report {
	lane := Lane("M", "docker")
	Change(&lane, "pullonce", func(s *result.Sample) { s.Store = link.Counts{Requests: 54, Down: 103_000_000} })
	return result.Report{
		Date:     time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC),
		Machine:  result.Machine{System: "Debian 12", Kernel: "6.1", CPU: "A processor", Cores: 2, Memory: 8e9, FileSystems: map[string]string{"tmpfs": "tmpfs"}},
		Programs: map[string]string{"crane": "v0.22.1", "skopeo": "1.9.3"},
		Settings: result.Settings{Bandwidth: 100_000_000, Latency: 20 * time.Millisecond, Kept: true, Rounds: 3, Command: "go run ./bench"},
		Images: map[string][]sample.Image{"M": {{Repository: "bench/m", Tag: "1", Manifest: "sha256:1234", Unpacked: 259_000_000, Files: 9000,
			Packed: 98_000_000, Layers: 6}}},
		Cases: []result.Case{lane, Lane("set", "kind")},
	}
}

// Golden holds text to a file, or writes the file.
func Golden(t *testing.T, file, text string, update bool) {
	t.Helper()
	if update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), text, "go test with -update writes it")
}
