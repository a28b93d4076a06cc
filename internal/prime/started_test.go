package prime_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/prime"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/report"
)

func TestRowsSayWhenWorkOnTheirImageBegan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "redis:7", "nginx:1")
		b.registry.Always(regtest.Match{}, regtest.Delay(time.Second))
		b.options.Concurrency = 1 // one image moves after the other
		done := prime.Run(t.Context(), b.options)
		require.Equal(t, report.Success, done.Result, done.Problems)
		redis, nginx := done.Images[0], done.Images[1]
		require.Equal(t, 2*time.Second, redis.Started, "its three documents took three seconds; then nginx's two were fetched, and its two layers at once")
		require.Equal(t, 4*time.Second, redis.Elapsed)
		require.Equal(t, done.Elapsed, nginx.Started+nginx.Elapsed, "the last ends with the run")
		require.Equal(t, 3*time.Second, nginx.Elapsed)
	})
}
