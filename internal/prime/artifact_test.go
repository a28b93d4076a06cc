package prime_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/prime"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/report"
)

func TestArtifactIsStoredOnlyWhereItIsAskedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t, "chart:1")
	b.registry.Add("library/chart:1", regtest.Chart(map[string]string{"chart/Chart.yaml": "name: chart"}))

	refused := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Failure, refused.Result)
	require.Len(t, refused.Problems, 1)
	require.Equal(t, `chart:1: pulling chart:1: not a container image (config media type "application/vnd.cncf.helm.config.v1+json"); `+
		"to keep it in the store all the same, say type=artifact", refused.Problems[0].Message)

	b.options.Items[0].Pin.Artifact = true
	stored := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Success, stored.Result, stored.Problems)
	require.Equal(t, "saved", stored.Images[0].Outcome)
	b.options.VerifyFull = true
	again := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Success, again.Result, again.Problems)
	require.Equal(t, "cached", again.Images[0].Outcome)

	b.options.Items[0].Pin.Artifact = false
	wrong := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Failure, wrong.Result, "an entry that is read again is held to the pin")
}

func TestImageIsNoArtifact(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7")
	b.options.Items[0].Pin.Artifact = true
	got := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Failure, got.Result)
	require.Contains(t, got.Problems[0].Message, "pulling redis:7: a container image, and type=artifact is for what is none")
}
