package registry_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/retry"
)

// TestFaultsHaveTheirOutcomesInRealTime suffers the whole table at once over loopback, with a timeout of a minute in place
// of ten.
func TestFaultsHaveTheirOutcomesInRealTime(t *testing.T) {
	if os.Getenv("PULLONCE_E2E") != "1" {
		t.Skip("takes a minute: run it with PULLONCE_E2E=1")
	}
	const timeout = time.Minute
	policy := retry.Policy{Timeout: timeout, Jitter: steady.Jitter}
	table := faults()
	outcomes := make([]outcome, len(table))
	var g errgroup.Group
	for i, f := range table {
		r := faulty()
		s := start(t, r, regtest.Listen{})
		c := real(t, registry.Options{Policy: policy, SpoolDir: t.TempDir()})
		g.Go(func() error {
			outcomes[i] = f.suffer(t.Context(), r, c, s.Host)
			return nil
		})
	}
	require.NoError(t, g.Wait())
	for i, f := range table {
		name, got := string(f.stage)+": "+f.what, outcomes[i]
		require.Equal(t, f.fails, got.fails, name)
		require.LessOrEqual(t, got.after, timeout+timeout/20, name)
		if f.unlimited {
			require.Greater(t, got.after, timeout*3/4, name)
			continue
		}
		if f.repaired {
			require.LessOrEqual(t, got.attempts, f.attempts, name)
			continue
		}
		require.Equal(t, f.attempts, got.attempts, name)
		require.GreaterOrEqual(t, got.after, f.after-busyMachine, name)
		if f.fails == permanent && f.attempts == 1 {
			require.Less(t, got.after, busyMachine, name)
		}
	}
}
