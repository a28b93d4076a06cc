package target_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/target"
)

func TestLocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var locks target.Locks
		unlock, err := locks.Lock(t.Context(), "a")
		require.NoError(t, err)
		other, err := locks.Lock(t.Context(), "b")
		require.NoError(t, err)
		other()

		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		time.AfterFunc(time.Second, func() { cancel(why) })
		_, err = locks.Lock(ctx, "a")
		require.ErrorIs(t, err, why)

		time.AfterFunc(time.Second, unlock)
		began := time.Now()
		unlock, err = locks.Lock(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(began))
		unlock()
	})
}

func TestCleaningOutlivesTheLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		requireLeft(t, ctx, 30*time.Second)
		cancel()
		requireLeft(t, ctx, time.Second)
	})
}

func requireLeft(t *testing.T, ctx context.Context, want time.Duration) {
	t.Helper()
	cleaning, done := target.Cleaning(ctx)
	defer done()
	require.NoError(t, cleaning.Err())
	deadline, _ := cleaning.Deadline()
	require.Equal(t, want, time.Until(deadline))
}

func TestRuns(t *testing.T) {
	t.Parallel()
	arm := platform.Platform{OS: "linux", Architecture: "arm", Variant: "v6"}
	img := imagetest.New(t, imagetest.Options{Platform: arm})
	require.NoError(t, target.Runs(img, platform.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}))
	require.EqualError(t, target.Runs(img, platform.Platform{OS: "linux", Architecture: "amd64"}),
		"the image is for linux/arm/v6, containers here are linux/amd64: pin it for that platform, with platforms=linux/amd64")
}
