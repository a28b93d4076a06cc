//go:build linux

package e2e

import (
	"context"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/store/dir"
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
		store := newStore(t)
		list := pins(t, store, refs...)
		var moment time.Duration
		for killed := false; !killed; {
			require.NoError(t, os.RemoveAll(store))
			moment = time.Duration((float64(i) + random.Float64()) / kills * float64(length))
			var ran time.Duration
			if killed, ran = killAfter(t, p, moment, with([]string{"prime"}, list...)...); !killed {
				length = min(length, ran) // it came to its own end first
			}
		}
		published, unfinished := entries(t, store)
		t.Logf("killed after %s of %s: %d published, %d unfinished", moment.Round(time.Millisecond), length.Round(time.Millisecond), published, unfinished)
		if unfinished > 0 {
			inFlight++
		}
		requireStoreVerifies(t, store, published)

		next := p.run(t, with([]string{"prime"}, list...)...)
		require.Equal(t, 0, next.code, "the prime after the kill")
		requireStoreVerifies(t, store, len(refs))
		_, left := entries(t, store)
		require.Zero(t, left, "what the killed prime left is still there")
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

// lengthOfPrime is how long a prime of references takes into an empty store, at best.
func lengthOfPrime(t *testing.T, p program, references []string) time.Duration {
	t.Helper()
	length := time.Hour
	for range 3 {
		done := p.run(t, with([]string{"prime"}, pins(t, newStore(t), references...)...)...)
		require.Equal(t, 0, done.code)
		length = min(length, done.elapsed)
	}
	return length
}

// killAfter starts the program and kills it after a while. It says whether that came before the program's own end, and
// how long it ran.
func killAfter(t *testing.T, p program, after time.Duration, args ...string) (killed bool, ran time.Duration) {
	t.Helper()
	cmd := p.command(t, args...)
	began := time.Now()
	require.NoError(t, cmd.Start())
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	if !status.Signaled() {
		require.Zero(t, status.ExitStatus())
	}
	return status.Signaled(), time.Since(began)
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

// requireStoreVerifies has every entry of a store read to its last byte, and counts them.
func requireStoreVerifies(t *testing.T, path string, want int) {
	t.Helper()
	s, err := dir.New(path)
	require.NoError(t, err)
	all, err := s.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, want)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, e := range all {
		found, err := s.Inspect(ctx, e.Key)
		require.NoError(t, err)
		require.NoError(t, found.Problem)
	}
}
