package registry_test

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/retry"
)

// pullAll pulls the repositories at the same time and returns the requests for manifests, in order.
func pullAll(t *testing.T, r *regtest.Registry, c *registry.Client, refs ...string) regtest.Log {
	t.Helper()
	var g errgroup.Group
	for _, ref := range refs {
		g.Go(func() error {
			_, err := c.Pull(t.Context(), reference.MustParse(ref), amd64)
			return err
		})
	}
	require.NoError(t, g.Wait())
	return r.Log().Of(regtest.KindManifest)
}

func eight(t *testing.T, r *regtest.Registry, domain string) []string {
	t.Helper()
	var refs []string
	for i := range 8 {
		name := "app" + string(rune('a'+i)) + ":1"
		r.Add("some/"+name, regtest.RandomImage(uint64(i), 1, 1000))
		refs = append(refs, domain+"/some/"+name)
	}
	return refs
}

func TestOneIsToldToWaitAndAllWaitAndWakeSpreadOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := regtest.New(regtest.Options{})
		refs := eight(t, r, "registry.example")
		tooMany := regtest.Answer(429, "application/json", regtest.ErrorBody("TOOMANYREQUESTS", "slow down"), "Retry-After", "12")
		r.Script(regtest.Match{Kind: regtest.KindManifest, Repository: "some/appa"}, tooMany)
		c := client(t, r, registry.Options{Policy: steady})
		_, err := c.Pull(t.Context(), reference.MustParse("registry.example/some/appb:1"), amd64)
		require.NoError(t, err)
		r.ResetLog()

		var g errgroup.Group
		g.Go(func() error {
			_, err := c.Pull(t.Context(), reference.MustParse(refs[0]), amd64)
			return err
		})
		synctest.Wait() // until it has been told to wait
		pullAll(t, r, c, refs[1:]...)
		require.NoError(t, g.Wait())

		times := r.Log().Times()
		require.Len(t, times, 1+2*8)
		require.Equal(t, 12*time.Second, times[1], "nobody asks before the wait is over")
		for i, at := range times[2:] {
			require.Equal(t, spread, at-times[i+1])
		}
	})
}

func TestAllThrottledAtOnceComeBackOneByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := regtest.New(regtest.Options{})
		refs := eight(t, r, "registry.example")
		tooMany := regtest.Answer(429, "application/json", regtest.ErrorBody("TOOMANYREQUESTS", "slow down"), "Retry-After", "12")
		late := func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			regtest.Delay(time.Second)(w, req, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { tooMany(w, req, next) }))
		}
		r.Script(regtest.Match{Kind: regtest.KindManifest}, slices.Repeat([]regtest.Fault{late}, 8)...)
		c := client(t, r, registry.Options{Policy: steady})

		times := pullAll(t, r, c, refs...).Times()
		require.Len(t, times, 16)
		require.Equal(t, time.Duration(0), times[7])
		require.Equal(t, 13*time.Second, times[8])
		for i := range times[9:] {
			require.GreaterOrEqual(t, times[9+i]-times[8+i], spread)
		}
	})
}

func TestAnonymousECRPublicIsPacedFromTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := &regtest.Throttle{Requests: 1, Window: time.Second, Kinds: []regtest.Kind{regtest.KindIndex, regtest.KindManifest, regtest.KindConfig, regtest.KindBlob}}
		r := regtest.New(regtest.Options{Throttle: limit})
		refs := eight(t, r, "public.ecr.aws")
		pullAll(t, r, client(t, r, registry.Options{Policy: steady}), refs...)
		require.NotContains(t, r.Log().Statuses(), 429)
		times := r.Log().Times()
		require.Equal(t, 15*time.Second, times[len(times)-1])
	})
}

func TestAWaitPastTheDeadlineIsNotBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := regtest.New(regtest.Options{})
		refs := eight(t, r, "registry.example")
		r.Script(regtest.Match{}, regtest.Answer(429, "application/json", "{}", "Retry-After", "700"))
		c := client(t, r, registry.Options{Policy: steady})
		start := time.Now()
		for _, ref := range refs[:2] { // the second is not even sent
			_, err := c.Pull(t.Context(), reference.MustParse(ref), amd64)
			class, asked := retry.ClassOf(err)
			require.Equal(t, retry.Throttled, class)
			require.Equal(t, 700*time.Second, asked)
			require.ErrorContains(t, err, "registry.example")
		}
		require.Equal(t, start, time.Now())
		require.Len(t, r.Log(), 1)
	})
}
