package e2e

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/report"
)

const (
	// kills is how many moments prime is killed at.
	kills = 20
	// killsInFlight is how many of them must fall while an entry is being written.
	killsInFlight = 5
)

// Killed at any moment, prime leaves a store in which all that is published is whole, and the next prime completes it.
// The moments are spread evenly over the length of an unkilled run: one in each twentieth, at random.
func TestPrimeKilled(t *testing.T) {
	gate(t)
	f := needImages(t)
	r := startRegistry(t, f.storage)
	refs := []string{r.addr + "/" + f.small.repoTag, r.addr + "/" + f.medium.repoTag, r.addr + "/" + f.large.repoTag}
	p := pullonce(t, nil)
	length := lengthOfPrime(t, p, refs)
	random := seeded(t)

	inFlight := 0
	for i := range kills {
		moment := time.Duration((float64(i) + random.Float64()) / kills * float64(length))
		store := newStore(t)
		list := pins(t, store, refs...)
		killAfter(t, p, moment, with([]string{"prime"}, list...)...)
		published, unfinished := entries(t, store)
		t.Logf("killed after %s of %s: %d published, %d unfinished", moment.Round(time.Millisecond), length.Round(time.Millisecond), published, unfinished)
		if unfinished > 0 {
			inFlight++
		}
		requireStoreVerifies(t, p, store, published)

		next := p.run(t, with([]string{"prime"}, list...)...)
		require.Equal(t, 0, next.code, "the prime after the kill")
		requireStoreVerifies(t, p, store, len(refs))
		require.NoError(t, os.RemoveAll(store))
	}
	t.Logf("%d of %d kills fell while an entry was being written", inFlight, kills)
	require.GreaterOrEqual(t, inFlight, killsInFlight)
}

// seeded is a source of random numbers whose seed is in the log. PULLONCE_E2E_SEED repeats a run.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("PULLONCE_E2E_SEED"); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		require.NoError(t, err, "PULLONCE_E2E_SEED")
	}
	t.Logf("seed: PULLONCE_E2E_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

// lengthOfPrime is how long a prime of references takes into an empty store: the second of two, because the first
// fills the caches.
func lengthOfPrime(t *testing.T, p program, references []string) time.Duration {
	t.Helper()
	var length time.Duration
	for range 2 {
		done := p.run(t, with([]string{"prime"}, pins(t, newStore(t), references...)...)...)
		require.Equal(t, 0, done.code)
		length = done.elapsed
	}
	return length
}

// killAfter starts the program and kills it after a while, unless it has ended by then.
func killAfter(t *testing.T, p program, after time.Duration, args ...string) {
	t.Helper()
	cmd := p.command(t, args...)
	require.NoError(t, cmd.Start())
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait() // killed, as a rule
}

// entries counts the files of a store: those that are published, as <key>/image.tar, and those that were being
// written.
func entries(t *testing.T, store string) (published, unfinished int) {
	t.Helper()
	if !exists(store) {
		return 0, 0
	}
	require.NoError(t, filepath.WalkDir(store, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || e.IsDir() || e.Name() == ".gitignore":
		case e.Name() == "image.tar":
			published++
		default:
			unfinished++
		}
		return err
	}))
	return published, unfinished
}

// requireStoreVerifies has every entry read to its last byte, and counts them.
func requireStoreVerifies(t *testing.T, p program, store string, want int) {
	t.Helper()
	out := p.inspect(t, store)
	require.Equal(t, 0, out.code, out.stderr)
	require.Len(t, out.report.Images, want)
	for _, row := range out.report.Images {
		require.Equal(t, report.Cache, row.Source)
	}
}
