//go:build linux

package app

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/bench/internal/contender"
	"github.com/pullonce/pullonce/bench/internal/result"
)

// The gate of the end-to-end suite, and the folder of the current engine.
const (
	envGate   = "PULLONCE_E2E"
	envEngine = "PULLONCE_E2E_BIN"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == measureMode { // the process in between
		os.Exit(Main(context.Background(), Process{Args: os.Args, Stdout: os.Stdout, Stderr: os.Stderr}))
	}
	os.Exit(m.Run())
}

// TestEveryJobOfEveryContender measures the small image once: every way of doing every job is seen to do it.
func TestEveryJobOfEveryContender(t *testing.T) {
	if os.Getenv(envGate) != "1" {
		t.Skip("needs root and container engines: run it with .ci/run full, or PULLONCE_E2E=1 PULLONCE_E2E_BIN=… go test ./bench/...")
	}
	require.NotEmpty(t, os.Getenv(envEngine), "the folder of a current engine: .ci/run full builds it")
	file := filepath.Join(t.TempDir(), "report.json")
	code, stdout, stderr := run(t, "-images", "small", "-rounds", "1", "-bin", os.Getenv(envEngine), "-json", file)
	require.Equal(t, exitOK, code, stderr)
	t.Log(stdout)

	var r result.Report
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r))
	require.Len(t, r.Cases, 2*4+2, "two engines with all jobs, and a node with lanes")
	for _, c := range r.Cases {
		for _, s := range c.Series {
			if s.Contender == contender.SkopeoInto {
				continue // Debian's speaks a version of the API that the engine has given up
			}
			require.Empty(t, s.Problem, "%s %s: %s", c.Mode, c.Target, s.Contender)
			require.Len(t, s.Samples, 1)
			require.Positive(t, s.Samples[0].PeakRSS)
		}
	}
}
