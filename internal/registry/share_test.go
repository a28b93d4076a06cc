package registry_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
)

// sharing is a registry with two images that have a layer in common.
func sharing() *regtest.Registry {
	r := regtest.New(regtest.Options{})
	base := regtest.RandomLayer(1, layerSize)
	r.Add("a:1", regtest.NewImage(regtest.Config{}, base, regtest.RandomLayer(2, 1000)))
	r.Add("b:1", regtest.NewImage(regtest.Config{}, base, regtest.RandomLayer(3, 1000)))
	return r
}

func TestSharedLayerIsFetchedOnce(t *testing.T) {
	t.Parallel()
	spool := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := sharing()
		c := client(t, r, registry.Options{SpoolDir: spool, Policy: steady})
		a, err := c.Pull(t.Context(), reference.MustParse("registry.example/a:1"), amd64)
		require.NoError(t, err)
		b, err := c.Pull(t.Context(), reference.MustParse("registry.example/b:1"), amd64)
		require.NoError(t, err)

		var g errgroup.Group
		for _, pull := range []*registry.Pull{a, b, a, b} {
			g.Go(func() error {
				return errors.Join(consume(t.Context(), pull.Image, 0), consume(t.Context(), pull.Image, 1))
			})
		}
		require.NoError(t, g.Wait())
		require.Len(t, r.Log().Of(regtest.KindBlob), 3)

		require.NoError(t, a.Close())
		readLayers(t, b.Image)
		require.Len(t, r.Log().Of(regtest.KindBlob), 3, "what another pull wants stays")
		require.NoError(t, b.Close())
		require.Empty(t, files(t, spool), "what no pull wants goes")
	})
}

// files are the names of all files below dir.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, files(t, dir+"/"+e.Name())...)
		} else {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestAllLayersAreBroughtToHandAndToldOf(t *testing.T) {
	t.Parallel()
	r := regtest.New(regtest.Options{})
	img := regtest.RandomImage(1, 5, 10_000)
	r.Add("a:1", img)
	var received atomic.Int64
	o := registry.Options{SpoolDir: t.TempDir(), Policy: quick, Received: func(_ reference.Reference, n int) { received.Add(int64(n)) }}
	pull, err := client(t, r, o).Pull(t.Context(), reference.MustParse("registry.example/a:1"), amd64)
	require.NoError(t, err)
	atHand, err := pull.Image.AtHand(t.Context())
	require.NoError(t, err)
	require.True(t, atHand)
	readLayers(t, pull.Image)
	require.Len(t, r.Log().Of(regtest.KindBlob), 5)
	require.Equal(t, r.Log().Of(regtest.KindBlob).Bytes(), received.Load())
	require.NoError(t, pull.Close())
	require.NoError(t, pull.Close(), "twice is fine")
}

// archive writes img as a store does that takes layers as they come.
func archive(t *testing.T, img image.Image) error {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "archive"))
	require.NoError(t, err)
	defer f.Close()
	if err := image.EncodeAt(t.Context(), f, img); err != nil {
		return err
	}
	_, err = image.VerifyArchive(t.Context(), f, image.EncodedSize(img))
	return err
}

// Where the spool would be no file can be made, so that what is spooled is found out.
func TestALayerThatNoOtherPullWantsIsNotSpooled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/file"
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	r := sharing()
	c := client(t, r, registry.Options{SpoolDir: dir, Policy: quick})
	a, err := c.Pull(t.Context(), reference.MustParse("registry.example/a:1"), amd64)
	require.NoError(t, err)
	require.NoError(t, archive(t, a.Image))
	require.Len(t, r.Log().Of(regtest.KindBlob), 2)

	b, err := c.Pull(t.Context(), reference.MustParse("registry.example/b:1"), amd64)
	require.NoError(t, err)
	require.ErrorContains(t, archive(t, b.Image), "making the spool", "the one that both have is kept for the other")
	require.NoError(t, a.Close())
	require.NoError(t, archive(t, b.Image))
}

func TestASharedLayerThatIsWrittenAtOnceIsFetchedOnce(t *testing.T) {
	t.Parallel()
	r := sharing()
	c := client(t, r, registry.Options{SpoolDir: t.TempDir(), Policy: quick})
	var g errgroup.Group
	var pulls []*registry.Pull
	for _, name := range []string{"a", "b"} {
		pull, err := c.Pull(t.Context(), reference.MustParse("registry.example/"+name+":1"), amd64)
		require.NoError(t, err)
		pulls = append(pulls, pull)
	}
	for _, pull := range pulls {
		g.Go(func() error { return archive(t, pull.Image) })
	}
	require.NoError(t, g.Wait())
	require.Len(t, r.Log().Of(regtest.KindBlob), 3)
}

// A layer that comes wrong is fetched again, on the schedule, also where nothing of it is kept.
func TestALayerThatIsNotSpooledAndComesWrongIsFetchedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := sharing()
		c := client(t, r, registry.Options{SpoolDir: "/dev/null/none", Policy: steady})
		pull, err := c.Pull(t.Context(), reference.MustParse("registry.example/a:1"), amd64)
		require.NoError(t, err)
		r.Script(regtest.Match{Kind: regtest.KindBlob}, regtest.Flip(100), regtest.Flip(200))
		start := time.Now()
		require.NoError(t, archive(t, pull.Image))
		require.Equal(t, 2500*time.Millisecond, time.Since(start))
		require.Equal(t, 3, pull.Attempts())

		r.Always(regtest.Match{Kind: regtest.KindBlob}, regtest.Flip(100))
		err = archive(t, pull.Image)
		require.ErrorIs(t, err, image.ErrVerify)
		require.ErrorContains(t, err, "and so 3 times")
	})
}

func TestWhoWaitsForASharedLayerTakesOverWhenItsFetcherLeaves(t *testing.T) {
	t.Parallel()
	spool := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := sharing()
		r.Script(regtest.Match{Kind: regtest.KindBlob}, regtest.Delay(10*time.Second))
		c := client(t, r, registry.Options{SpoolDir: spool, Policy: steady})
		a, err := c.Pull(t.Context(), reference.MustParse("registry.example/a:1"), amd64)
		require.NoError(t, err)
		b, err := c.Pull(t.Context(), reference.MustParse("registry.example/b:1"), amd64)
		require.NoError(t, err)

		leaving, leave := context.WithCancelCause(t.Context())
		var g errgroup.Group
		var left error
		g.Go(func() error {
			left = consume(leaving, a.Image, 0)
			return nil
		})
		synctest.Wait()
		g.Go(func() error { return consume(t.Context(), b.Image, 0) })
		synctest.Wait()
		gone := errors.New("gone home")
		leave(gone)
		require.NoError(t, g.Wait())
		require.ErrorIs(t, left, gone)
		require.NoError(t, c.Close())
		require.Empty(t, files(t, spool))
	})
}

func TestCancelEndsAtOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]regtest.Fault{
		"in a hang":     regtest.Hang(),
		"in a stall":    regtest.Stall(10),
		"in a wait":     regtest.Status(503),
		"in a cooldown": regtest.Answer(429, "text/plain", "", "Retry-After", "60"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := sharing()
				r.Always(regtest.Match{}, tc)
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errors.New("interrupted by the user")) })
				start := time.Now()
				_, err := client(t, r, registry.Options{Policy: steady}).Pull(ctx, reference.MustParse("registry.example/a:1"), amd64)
				require.ErrorContains(t, err, "interrupted by the user")
				require.Equal(t, time.Second, time.Since(start))
			})
		})
	}
}

func TestSpoolThatCanNotBeMadeIsAnError(t *testing.T) {
	t.Parallel()
	r := sharing()
	dir := t.TempDir() + "/spool"
	require.NoError(t, os.WriteFile(dir, nil, 0o600)) // no folder can be made here
	pull, err := client(t, r, registry.Options{SpoolDir: dir, Policy: quick}).Pull(t.Context(), reference.MustParse("registry.example/a:1"), amd64)
	require.NoError(t, err)
	require.ErrorContains(t, readLayer(t, pull.Image, 0), "making the spool")
	require.Empty(t, r.Log().Of(regtest.KindBlob))
}
