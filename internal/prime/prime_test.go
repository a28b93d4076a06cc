package prime_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/plan"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/prime"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/retry"
	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/store/dir"
)

var linux = platform.Platform{OS: "linux", Architecture: "amd64"}

// bench is a registry with two images, a store, and what primes between them.
type bench struct {
	registry *regtest.Registry
	store    *dir.Store
	path     string
	options  prime.Options
}

func newBench(t *testing.T, refs ...string) *bench {
	t.Helper()
	b := &bench{registry: regtest.New(regtest.Options{}), path: t.TempDir()}
	b.registry.Add("library/redis:7", regtest.NewIndex(regtest.RandomImage(1, 2, 10_000)))
	b.registry.Add("library/nginx:1", regtest.RandomImage(2, 3, 5_000))
	var err error
	b.store, err = dir.New(b.path)
	require.NoError(t, err)
	b.options = prime.Options{
		Items: items(refs...), Store: b.store, MaxAge: prime.DefaultMaxAge,
		Registry: b.client(t, retry.Policy{Timeout: time.Minute}),
	}
	return b
}

func (b *bench) client(t *testing.T, policy retry.Policy) *registry.Client {
	t.Helper()
	client := registry.New(registry.Options{
		Transport: b.registry.Transport("192.0.2.1"), Policy: policy, Insecure: func(string) bool { return true },
	})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func items(refs ...string) []plan.Item {
	var pins []pin.Pin
	for i, ref := range refs {
		pins = append(pins, pin.Pin{Reference: reference.MustParse(ref), Position: pin.Position{File: "images.txt", Line: i + 1, Column: 1}})
	}
	return plan.Make(pins, plan.Options{Platforms: []platform.Platform{linux}}).Items
}

func TestColdPrimeSavesAndWarmPrimeAsksNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7", "nginx:1")

	cold := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Success, cold.Result, cold.Problems)
	require.Equal(t, []report.Source{report.Registry, report.Registry}, sources(cold))
	require.Equal(t, "saved", cold.Images[0].Outcome)
	require.Equal(t, 1, cold.Images[0].Attempts)
	for _, item := range b.options.Items {
		found, err := b.store.Inspect(t.Context(), item.Key)
		require.NoError(t, err)
		require.NoError(t, found.Problem)
	}

	b.registry.ResetLog()
	warm := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Success, warm.Result)
	require.Equal(t, []report.Source{report.Cache, report.Cache}, sources(warm))
	require.Empty(t, b.registry.Log(), "a warm prime asks no registry")
}

func TestOneMissingImageFailsTheRunAndNamesItsPin(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7", "absent:1")
	got := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Failure, got.Result)
	require.Equal(t, []report.Source{report.Registry, report.Nowhere}, sources(got))
	require.Len(t, got.Problems, 1, "one problem an image, whatever the attempts")
	p := got.Problems[0]
	require.Equal(t, report.Error, p.Severity)
	require.Contains(t, p.Message, "absent:1")
	require.Equal(t, "images.txt", p.File)
	require.Equal(t, 2, p.Line)
}

func TestMovedTagBecomesTheNextGeneration(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7")
	require.Equal(t, report.Success, prime.Run(t.Context(), b.options).Result)
	moved := b.registry.Add("library/redis:7", regtest.RandomImage(9, 1, 100))

	young := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Cache, young.Images[0].Source, "a young entry is not compared")

	b.options.MaxAge = 0
	old := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Registry, old.Images[0].Source)
	require.Equal(t, moved.String(), old.Images[0].Digest)
	require.Contains(t, old.Problems[0].Message, "the tag has moved from sha256:")
	entry, err := b.store.Stat(t.Context(), b.options.Items[0].Key)
	require.NoError(t, err)
	require.Equal(t, 1, entry.Generation)

	b.registry.ResetLog()
	again := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Cache, again.Images[0].Source)
	require.Len(t, b.registry.Log(), 1)
	require.Equal(t, http.MethodHead, b.registry.Log()[0].Method, "a tag is compared by one HEAD")
}

func TestRegistryThatDoesNotAnswerLeavesTheOldEntryInUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "redis:7")
		require.Equal(t, report.Success, prime.Run(t.Context(), b.options).Result)
		b.registry.Always(regtest.Match{}, regtest.Status(http.StatusBadGateway))
		b.options.MaxAge = 0
		got := prime.Run(t.Context(), b.options)
		require.Equal(t, report.Success, got.Result)
		require.Equal(t, report.Cache, got.Images[0].Source)
		require.Len(t, got.Problems, 1)
		require.Equal(t, report.Warning, got.Problems[0].Severity)
	})
}

func TestFullVerificationReplacesACorruptEntry(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7")
	require.Equal(t, report.Success, prime.Run(t.Context(), b.options).Result)
	path := b.store.Path(b.options.Items[0].Key)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[len(data)-4096] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o644))

	b.options.VerifyFull = true
	got := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Success, got.Result)
	require.Equal(t, report.Registry, got.Images[0].Source)
	require.Contains(t, got.Problems[0].Message, "corrupt")
	found, err := b.store.Inspect(t.Context(), b.options.Items[0].Key)
	require.NoError(t, err)
	require.NoError(t, found.Problem)
	require.Equal(t, 1, found.Entry.Generation)
}

func TestStoreThatLosesWhatItSavedFailsTheRun(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]lossy{
		"after the save":  {},
		"at the look-up":  {stat: errors.New("cache is down")},
		"during the save": {save: errors.New("disk full")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "redis:7")
			b.options.Store = broken
			got := prime.Run(t.Context(), b.options)
			require.Equal(t, report.Failure, got.Result)
			require.Len(t, got.Problems, 1)
			require.Contains(t, got.Problems[0].Message, "redis:7")
		})
	}
}

func TestInterruptedPrimeIsAFailure(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := prime.Run(ctx, b.options)
	require.Equal(t, report.Failure, got.Result)
	_, err := b.store.Stat(t.Context(), b.options.Items[0].Key)
	require.ErrorIs(t, err, store.ErrNotFound)
}

// lossy is a store that never has anything.
type lossy struct{ stat, save error }

func (s lossy) Stat(context.Context, string) (store.Entry, error) {
	if s.stat != nil {
		return store.Entry{}, s.stat
	}
	return store.Entry{}, store.ErrNotFound
}

func (s lossy) Open(context.Context, string) (image.Image, error) {
	return image.Image{}, store.ErrNotFound
}

func (s lossy) Save(context.Context, string, image.Image) error { return s.save }

func sources(r report.Report) []report.Source {
	var all []report.Source
	for _, img := range r.Images {
		all = append(all, img.Source)
	}
	return all
}

func TestAnEntryThatWasCutShortIsReplacedWithoutBeingAskedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7")
	require.Equal(t, report.Success, prime.Run(t.Context(), b.options).Result)
	require.NoError(t, os.Truncate(b.store.Path(b.options.Items[0].Key), 5000))
	got := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Success, got.Result)
	require.Equal(t, report.Registry, got.Images[0].Source)
	require.Contains(t, got.Problems[0].Message, "corrupt")
	found, err := b.store.Inspect(t.Context(), b.options.Items[0].Key)
	require.NoError(t, err)
	require.NoError(t, found.Problem)
	require.Equal(t, 1, found.Entry.Generation)
}

func TestAnEntryFromTheFutureIsCompared(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7")
	require.Equal(t, report.Success, prime.Run(t.Context(), b.options).Result)
	ahead := time.Now().Add(48 * time.Hour)
	require.NoError(t, os.Chtimes(b.store.Path(b.options.Items[0].Key), ahead, ahead))
	b.registry.ResetLog()
	require.Equal(t, report.Cache, prime.Run(t.Context(), b.options).Images[0].Source)
	require.Len(t, b.registry.Log(), 1)
}
