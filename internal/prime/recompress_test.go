package prime_test

import (
	"context"
	"os"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cachekey"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/recompress"
	"github.com/pullonce/pullonce/internal/plan"
	"github.com/pullonce/pullonce/internal/prime"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/retry"
)

// newZstdBench is a bench whose layers are recompressed, in a spool that is empty when all is over.
func newZstdBench(t *testing.T, refs ...string) *bench {
	t.Helper()
	b := newBench(t, refs...)
	base, app := regtest.RandomLayer(7, 300_000), regtest.FileLayer(map[string]string{"app": string(make([]byte, 500_000))})
	b.registry.Add("library/base:1", regtest.NewImage(regtest.Config{Docker: true}, base))
	b.registry.Add("library/app:1", regtest.NewIndex(regtest.NewImage(regtest.Config{}, base, app, base)))
	var pins []plan.Item
	for _, item := range b.options.Items {
		item.Key = cachekey.V2.Key(item.Pin.Reference, item.Platform, "")
		pins = append(pins, item)
	}
	dir := t.TempDir()
	layers := recompress.New(recompress.Options{Dir: dir})
	b.options.Items, b.options.Recompress = pins, layers
	t.Cleanup(func() {
		require.NoError(t, layers.Close())
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	})
	return b
}

// stored is the image in the store, read to its last byte.
func (b *bench) stored(t *testing.T, i int) image.Image {
	t.Helper()
	found, err := b.store.Inspect(t.Context(), b.options.Items[i].Key)
	require.NoError(t, err)
	require.NoError(t, found.Problem)
	return found.Image
}

func TestLayersAreRecompressedOnTheirWay(t *testing.T) {
	t.Parallel()
	for _, spooling := range []bool{false, true} {
		b := newZstdBench(t, "app:1", "base:1")
		spool := t.TempDir()
		if spooling {
			client := registry.New(registry.Options{
				Transport: b.registry.Transport("192.0.2.1"), Insecure: func(string) bool { return true }, SpoolDir: spool,
			})
			t.Cleanup(func() { require.NoError(t, client.Close()) })
			b.options.Registry = client
		}
		cold := prime.Run(t.Context(), b.options)
		require.Equal(t, report.Success, cold.Result, cold.Problems)
		require.Len(t, b.registry.Log().Of(regtest.KindBlob), 2, "a layer that is there twice, or in two images, is fetched once")
		for i, row := range cold.Images {
			img := b.stored(t, i)
			require.True(t, img.Recompressed())
			require.Equal(t, row.Digest, img.Root().Digest.String())
			require.Equal(t, img.Size(), row.Size)
			require.Regexp(t, regexp.MustCompile(`^zstd: \d+\.\d kB → \d+\.\d kB in \d+`), row.Reason)
		}
		require.Equal(t, b.stored(t, 0).Layers()[0], b.stored(t, 1).Layers()[0])
		left, err := os.ReadDir(spool)
		require.NoError(t, err)
		require.Empty(t, left)

		b.registry.ResetLog()
		b.options.VerifyFull = true
		warm := prime.Run(t.Context(), b.options)
		require.Equal(t, []report.Source{report.Cache, report.Cache}, sources(warm), warm.Problems)
		require.Empty(t, b.registry.Log(), "a warm prime asks no registry")
	}
}

// What has come under the wrong key is of no use there.
func TestRecompressedEntryUnderTheKeyOfAnExactOneIsReplaced(t *testing.T) {
	t.Parallel()
	b := newZstdBench(t, "base:1")
	require.Equal(t, report.Success, prime.Run(t.Context(), b.options).Result)
	b.options.Recompress, b.options.VerifyFull = nil, true
	got := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Success, got.Result)
	require.Contains(t, got.Problems[0].Message, "its layers are not the registry's own")
	require.False(t, b.stored(t, 0).Recompressed())
}

func TestWhatHasNothingToRecompressIsStoredAsItIs(t *testing.T) {
	t.Parallel()
	b := newZstdBench(t, "chart:1")
	b.registry.Add("library/chart:1", regtest.Chart(map[string]string{"chart/Chart.yaml": "name: chart"}))
	b.options.Items[0].Pin.Artifact = true
	got := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Success, got.Result, got.Problems)
	require.Empty(t, got.Images[0].Reason)
	require.False(t, b.stored(t, 0).Recompressed())
}

func TestLayerWithOtherContentThanItsConfigSaysFailsItsImageAlone(t *testing.T) {
	t.Parallel()
	b := newZstdBench(t, "wrong:1", "redis:7")
	wrong := regtest.RandomLayer(8, 1000)
	wrong.DiffID = wrong.Digest
	b.registry.Add("library/wrong:1", regtest.NewImage(regtest.Config{}, regtest.RandomLayer(9, 1000), wrong))
	got := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Failure, got.Result)
	require.Equal(t, []report.Source{report.Nowhere, report.Registry}, sources(got))
	require.Len(t, got.Problems, 1)
	require.Equal(t, "verify", got.Problems[0].Kind)
	require.Contains(t, got.Problems[0].Message, "wrong:1: recompressing wrong:1: layer "+wrong.Digest.String())
	require.Contains(t, got.Problems[0].Message, "the config says "+wrong.Digest.String())
	require.Equal(t, 1, got.Images[0].Attempts)
}

// Faults of the registry are ridden through as they are without recompression.
func TestLayerThatArrivesWrongIsRecompressedAnew(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]regtest.Fault{
		"flipped": regtest.Flip(150_000), "flipped in its header": regtest.Flip(0), "a page": regtest.HTML(), "cut": regtest.Truncate(200_000), "reset": regtest.Reset(200_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newZstdBench(t, "base:1")
				b.registry.Script(regtest.Match{Kind: regtest.KindBlob}, fault)
				got := prime.Run(t.Context(), b.options)
				require.Equal(t, report.Success, got.Result, got.Problems)
				require.Equal(t, 2, got.Images[0].Attempts)
				require.True(t, b.stored(t, 0).Recompressed())
			})
		})
	}
}

func TestLayerThatIsAlwaysWrongFailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newZstdBench(t, "base:1")
		b.registry.Always(regtest.Match{Kind: regtest.KindBlob}, regtest.Flip(10))
		got := prime.Run(t.Context(), b.options)
		require.Equal(t, report.Failure, got.Result)
		require.Contains(t, got.Problems[0].Message, "and so 3 times")
		require.Len(t, b.registry.Log().Of(regtest.KindBlob), 3)
		require.Less(t, got.Elapsed, time.Minute)
	})
}

func TestInterruptionEndsRecompression(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newZstdBench(t, "base:1")
		b.options.Registry = b.client(t, retry.Policy{Timeout: time.Hour})
		b.registry.Always(regtest.Match{Kind: regtest.KindBlob}, regtest.Stall(1000))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		got := prime.Run(ctx, b.options)
		require.Equal(t, report.Failure, got.Result)
		require.Equal(t, 10*time.Second, got.Elapsed)
	})
}
