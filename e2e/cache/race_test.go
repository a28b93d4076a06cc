package cache

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cachetest"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/regtest"
)

// mediumLayers are the layers of an image that takes a moment to save, in bytes.
var mediumLayers = []int64{30_000_000, 10_000_000}

func TestTwoPrimesThatRaceMakeOneEntry(t *testing.T) {
	gate(t)
	w := newWorld(t, false)
	var both sync.WaitGroup
	for range 2 {
		prime := command(t, childSaveMedium, w.URL, t.TempDir())
		require.NoError(t, prime.Start())
		both.Go(func() {
			if err := prime.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	require.Len(t, w.Requests(cachetest.Create), 2, "it was a race")
	require.Equal(t, []string{key}, savedKeys(w))
	requireLoads(t, w)
}

func TestAfterAPrimeThatWasKilledTheNextOneSaves(t *testing.T) {
	gate(t)
	w := newWorld(t, false)
	spool := t.TempDir()
	w.Script(cachetest.Finalize, regtest.Hang())
	killed := command(t, childSaveMedium, w.URL, spool)
	require.NoError(t, killed.Start())
	require.Eventually(t, func() bool { return len(w.Requests(cachetest.Finalize)) == 1 }, time.Minute, 10*time.Millisecond)
	require.NoError(t, killed.Process.Kill())
	require.Error(t, killed.Wait())
	left, err := os.ReadDir(spool)
	require.NoError(t, err)
	require.Empty(t, left, "the spool goes with its process")

	require.NoError(t, command(t, childSaveMedium, w.URL, spool).Run())
	require.Equal(t, []string{key + ".1"}, savedKeys(w))
	requireLoads(t, w)
}

func savedKeys(w *world) []string {
	var all []string
	for _, e := range w.Entries() {
		all = append(all, e.Key)
	}
	return all
}

// requireLoads loads what the children have saved.
func requireLoads(t *testing.T, w *world) {
	t.Helper()
	img, err := w.store(t).Open(t.Context(), key)
	require.NoError(t, err)
	require.NoError(t, image.Verify(t.Context(), img))
}
