package lane_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/lane"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/report"
)

// withChart is a bench that has an image and, last, a chart.
func withChart(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, "redis:7", "chart:1")
	b.registry.Add("library/chart:1", regtest.Chart(map[string]string{"chart/Chart.yaml": "name: chart"}))
	b.options.Pins[1].Artifact = true
	return b
}

func TestArtifactIsNeitherLoadedNorMissed(t *testing.T) {
	t.Parallel()
	for name, primed := range map[string]bool{"in the store": true, "not in the store": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := withChart(t)
			if all := b.options.Pins; !primed {
				b.options.Pins = all[:1]
				b.prime(t)
				b.options.Pins = all
			} else {
				b.prime(t)
			}
			b.options.OnMiss = lane.Fail
			b.options.Targets = append(b.options.Targets, lane.Target{Name: "second", Target: &memory{platform: linux, images: map[string]string{}}})
			got := lane.Run(t.Context(), b.options)
			require.Equal(t, report.Success, got.Result, got.Problems)
			require.Equal(t, report.Stored, got.Images[1].Source)
			require.Equal(t, "skipped", got.Images[1].Outcome)
			require.Equal(t, "an artifact is stored, not loaded", got.Images[1].Reason)
			require.Len(t, got.Problems, 1, "one notice, whatever the targets")
			require.Equal(t, report.Notice, got.Problems[0].Severity)
			require.Equal(t, "no images but artifacts, which are stored and not loaded: chart:1", got.Problems[0].Message)
			require.Len(t, b.target.images, 1)
			require.Empty(t, b.registry.Log())
		})
	}
}

func TestUnavailableTargetIsNotMissedByAnArtifact(t *testing.T) {
	t.Parallel()
	b := withChart(t)
	b.options.Pins = b.options.Pins[1:]
	b.target.unavailable = errors.New("no daemon")
	got := lane.Run(t.Context(), b.options)
	require.Equal(t, report.Success, got.Result, got.Problems)
	require.Len(t, got.Problems, 1)
}

func TestArtifactInPlaceOfAnImageReachesNoTarget(t *testing.T) {
	t.Parallel()
	b := withChart(t)
	b.prime(t)
	b.options.Pins[1].Artifact = false // the key is the same
	got := lane.Run(t.Context(), b.options)
	require.Equal(t, report.Degraded, got.Result)
	require.Equal(t, "failed", got.Images[1].Outcome)
	require.Len(t, got.Problems, 1)
	require.Equal(t, "corrupt", got.Problems[0].Kind)
	require.Contains(t, got.Problems[0].Message, "pulling it instead: not a container image")
	require.Len(t, b.target.images, 1)
}
