package registry_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/retry"
)

// oneLayer pulls an image of one layer that is still to be read.
func oneLayer(t *testing.T, o regtest.Options, faults ...regtest.Fault) (*regtest.Registry, *registry.Pull) {
	t.Helper()
	r := regtest.New(o)
	r.Add("a:1", regtest.RandomImage(1, 1, layerSize))
	r.Script(regtest.Match{Kind: regtest.KindBlob}, faults...)
	pull, err := client(t, r, registry.Options{Policy: steady}).Pull(t.Context(), reference.MustParse("registry.example/a:1"), amd64)
	require.NoError(t, err)
	return r, pull
}

func TestServerWithoutRangesIsReadUpToTheOffset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, pull := oneLayer(t, regtest.Options{NoRange: true}, regtest.Reset(layerSize/2), regtest.Reset(layerSize*3/4))
		require.NoError(t, readLayer(t, pull.Image, 0))
		require.Len(t, r.Log().Of(regtest.KindBlob), 3)
	})
}

func TestServerThatMistakesTheRangeIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wrong := func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			req.Header.Set("Range", "bytes=7-")
			next.ServeHTTP(w, req)
		}
		_, pull := oneLayer(t, regtest.Options{}, regtest.Reset(layerSize/2), wrong)
		require.NoError(t, readLayer(t, pull.Image, 0))
		require.Equal(t, 3, pull.Attempts())
	})
}

func TestSlowReaderSpendsNoBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pull := oneLayer(t, regtest.Options{}, regtest.Stall(layerSize*3/4))
		rc, err := pull.Image.Layer(t.Context(), 0)
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, rc, layerSize/2)
		require.NoError(t, err)
		require.NoError(t, retry.Sleep(t.Context(), time.Hour)) // far beyond the timeout of the schedule
		_, err = io.Copy(io.Discard, rc)
		require.NoError(t, err)
		require.Equal(t, 2, pull.Attempts())
		require.NoError(t, rc.Close())
	})
}

func TestLayerThatBreaksEarlyEachTimeWaitsInBetween(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r, pull := oneLayer(t, regtest.Options{}, regtest.Reset(1000), regtest.Reset(1000), regtest.Reset(1000))
		require.NoError(t, readLayer(t, pull.Image, 0))
		require.Equal(t, 17500*time.Millisecond, time.Since(start))
		require.Equal(t, "bytes=3000-", r.Log()[5].Range(), "nothing is fetched twice")
	})
}

func TestStreamedLayerWithWrongBytesIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pull := oneLayer(t, regtest.Options{}, regtest.Flip(layerSize/2))
		require.ErrorContains(t, readLayer(t, pull.Image, 0), "what came has digest sha256:")
	})
}
