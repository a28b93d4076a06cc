package link

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever the pieces and however many take them, the line sends its bytes a second.
func TestBandwidthIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		line := bandwidth{rate: 1000}
		began := time.Now()
		done := make(chan error)
		for range 4 {
			go func() {
				var err error
				for range 50 {
					if err == nil {
						err = line.take(t.Context(), 10)
					}
				}
				done <- err
			}()
		}
		for range 4 {
			require.NoError(t, <-done)
		}
		require.InDelta(t, 2.0, time.Since(began).Seconds(), burst.Seconds()+0.001)
	})
}

// A line that nobody used has not saved up.
func TestBandwidthIsNotSaved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		line := bandwidth{rate: 1000}
		require.NoError(t, line.take(t.Context(), 100))
		time.Sleep(time.Hour)
		began := time.Now()
		require.NoError(t, line.take(t.Context(), 500))
		require.Equal(t, 500*time.Millisecond-burst, time.Since(began))
	})
}

func TestNoBandwidthIsNoBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, (&bandwidth{}).take(t.Context(), 1<<40))
		require.Zero(t, time.Since(began))
	})
}

func TestTakeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, (&bandwidth{rate: 1}).take(ctx, 3600), context.DeadlineExceeded)
	})
}
