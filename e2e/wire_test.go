//go:build linux

package e2e

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cachetest"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/store/actions"
)

// throttled asks for a second's pause.
var throttled = regtest.Answer(http.StatusTooManyRequests, "application/json", `{"code":"resource_exhausted","msg":"rate limit"}`, "Retry-After", "1")

// missing is a look-up's answer where there is no entry.
var missing = regtest.Answer(http.StatusOK, "application/json", `{"ok":false,"signed_download_url":"","matched_key":""}`)

// The cases of the wire, each through prime and a lane. Whatever happens, the image that a lane has in the end is the
// right one.
var wireCases = map[string]struct {
	options cachetest.Options
	test    func(t *testing.T, s *service)
}{
	"all goes well": {test: func(t *testing.T, s *service) {
		s.requireSaved(t, s.prime(t), s.key)
		s.requireLoaded(t, s.lane(t), report.Cache)
		before := len(s.registry.requests(t))
		warm := s.prime(t)
		s.requireSaved(t, warm, s.key)
		require.Equal(t, "true", warm.outputs["cache-hit"])
		require.Len(t, s.registry.requests(t), before)
	}},
	"denied by the service": {options: cachetest.Options{ReadOnly: true}, test: func(t *testing.T, s *service) {
		requireFailed(t, s.prime(t), "::error…read-only…cache write denied")
		s.requireLoaded(t, s.lane(t), report.Registry, "::warning…pulled from the registry…no entry for key "+s.key)
	}},
	"denied by the service, on a pull request from a fork": {options: cachetest.Options{ReadOnly: true}, test: func(t *testing.T, s *service) {
		s.env["GITHUB_EVENT_NAME"] = "pull_request"
		prime := s.prime(t)
		require.Equal(t, 0, prime.code)
		prime.requireAnnotations(t, "::warning…read-only…cache write denied")
		s.requireLoaded(t, s.lane(t), report.Registry, "::warning…pulled from the registry…no entry for key")
	}},
	"denied by the token": {test: func(t *testing.T, s *service) {
		s.env["ACTIONS_RUNTIME_TOKEN"] = readOnlyToken
		before := len(s.registry.requests(t))
		requireFailed(t, s.prime(t), "::error…read-only…token may only read the cache")
		require.Len(t, s.registry.requests(t), before, "it was pulled for nothing")
		require.Empty(t, s.Requests(cachetest.Create))
	}},
	"denied, and present": {test: func(t *testing.T, s *service) {
		s.primed(t)
		s.env["ACTIONS_RUNTIME_TOKEN"] = readOnlyToken
		s.requireSaved(t, s.prime(t), s.key)
		s.requireLoaded(t, s.lane(t), report.Cache)
	}},
	"409, and present": {test: func(t *testing.T, s *service) {
		s.primed(t)
		s.Forget()
		for range 5 {
			s.Script(cachetest.Lookup, missing) // until it is there: a look-up of one call, then of each generation
		}
		s.requireSaved(t, s.prime(t), s.key)
		require.Len(t, s.Requests(cachetest.Create), 1)
		require.Empty(t, s.Requests(cachetest.PutBlob, cachetest.PutBlock, cachetest.Finalize))
		s.requireLoaded(t, s.lane(t), report.Cache)
	}},
	"409, and absent": {test: func(t *testing.T, s *service) {
		s.Reserve(s.key, actions.Version(s.key))
		s.requireSaved(t, s.prime(t), s.key+".1")
		s.requireLoaded(t, s.lane(t), report.Cache)
	}},
	"429 on each call, once": {test: func(t *testing.T, s *service) {
		for _, op := range []cachetest.Op{cachetest.Create, cachetest.Finalize, cachetest.Lookup} {
			s.Script(op, throttled)
		}
		s.requireSaved(t, s.prime(t), s.key)
		s.Script(cachetest.Lookup, throttled)
		s.requireLoaded(t, s.lane(t), report.Cache)
	}},
	"429 on look-ups, for ever": {test: func(t *testing.T, s *service) {
		s.Always(cachetest.Lookup, throttled)
		requireFailed(t, s.prime(t, "timeout", "4s"), "::error…throttled…rate limit")
		s.requireLoaded(t, s.lane(t, "timeout", "4s"), report.Registry, "::warning…no store to load from…throttled…rate limit")
	}},
	"429 on reservations, for ever": {test: func(t *testing.T, s *service) {
		s.Always(cachetest.Create, throttled)
		requireFailed(t, s.prime(t, "timeout", "4s"), "::error…throttled…rate limit")
		require.Empty(t, s.Entries())
	}},
	"429 on publications, for ever": {test: func(t *testing.T, s *service) {
		s.Always(cachetest.Finalize, throttled)
		requireFailed(t, s.prime(t, "timeout", "4s"), "::error…throttled…rate limit")
		require.Empty(t, s.Entries())
	}},
	"5xx on each call, once": {test: func(t *testing.T, s *service) {
		for _, op := range []cachetest.Op{cachetest.Create, cachetest.Finalize, cachetest.Lookup, cachetest.PutBlob} {
			s.Script(op, regtest.Status(http.StatusBadGateway))
		}
		s.requireSaved(t, s.prime(t), s.key)
		s.Script(cachetest.Lookup, regtest.Status(http.StatusServiceUnavailable))
		s.Script(cachetest.GetBlob, regtest.Status(http.StatusInternalServerError))
		s.requireLoaded(t, s.lane(t), report.Cache)
	}},
	"5xx for ever": {test: func(t *testing.T, s *service) {
		s.Always(cachetest.Lookup, regtest.Status(http.StatusBadGateway))
		requireFailed(t, s.prime(t, "timeout", "4s"), "::error…502")
		s.requireLoaded(t, s.lane(t, "timeout", "4s"), report.Registry, "::warning…no store to load from…502")
	}},
	"a longer key with our prefix": {test: func(t *testing.T, s *service) {
		other := s.another(t)
		other.primed(t)
		s.Put(s.key+"0", actions.Version(s.key), other.bytes(other.key))
		s.Put(s.key+".10", actions.Version(s.key), other.bytes(other.key))
		s.requireLoaded(t, s.lane(t), report.Registry, "::warning…no entry for key")
		s.requireSaved(t, s.prime(t), other.key, s.key+"0", s.key+".10", s.key)
		s.daemon.docker(t, "image", "rm", s.reference)
		s.requireLoaded(t, s.lane(t), report.Cache)
	}},
	"another image under our key": {test: func(t *testing.T, s *service) {
		other := s.another(t)
		other.primed(t)
		s.Put(s.key, actions.Version(s.key), other.bytes(other.key))
		s.requireLoaded(t, s.lane(t), report.Registry, "::warning…pulled from the registry")
	}},
	"generations": {test: func(t *testing.T, s *service) {
		s.primed(t)
		good := s.bytes(s.key)
		s.Put(s.key+".2", actions.Version(s.key), good)
		s.Put(s.key+".1", actions.Version(s.key), []byte("an old one"))
		s.Spoil(s.key, func([]byte) []byte { return []byte("the oldest") })
		s.requireLoaded(t, s.lane(t), report.Cache)
		s.requireSaved(t, s.prime(t), s.key, s.key+".2", s.key+".1")
	}},
	"late to be visible": {options: cachetest.Options{Delay: 3 * time.Second}, test: func(t *testing.T, s *service) {
		began := time.Now()
		prime := s.prime(t)
		s.requireSaved(t, prime, s.key)
		require.Greater(t, time.Since(began), 3*time.Second, "it can be looked up once prime is done")
		s.Hide(s.key, 3*time.Second)
		s.requireLoaded(t, s.lane(t, "keys", prime.outputs["keys"]), report.Cache)
	}},
	"too late to be visible": {test: func(t *testing.T, s *service) {
		prime := s.prime(t)
		s.requireSaved(t, prime, s.key)
		s.Hide(s.key, time.Hour)
		s.requireLoaded(t, s.lane(t, "keys", prime.outputs["keys"], "visibility-wait", "2s"), report.Registry,
			"::warning…no entry for key "+s.key+", version "+actions.Version(s.key)+", in scope refs/heads/main")
	}},
	"an expired URL": {test: func(t *testing.T, s *service) {
		s.primed(t)
		s.Script(cachetest.GetBlob, regtest.Pass, func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			s.ExpireURLs()
			next.ServeHTTP(w, req)
		})
		s.requireLoaded(t, s.lane(t), report.Cache)
	}},
	"a truncated range":    {test: spoiledOnce(regtest.Truncate(1000))},
	"a shorter range":      {test: spoiledOnce(regtest.Resize(-1000))},
	"a corrupted range":    {test: spoiledOnce(regtest.Flip(500_000))},
	"a reset in a range":   {test: spoiledOnce(regtest.Reset(1000))},
	"a page for a range":   {test: spoiledOnce(regtest.HTML())},
	"corrupted for ever":   {test: spoiledForEver(func(b []byte) []byte { b[len(b)/2] ^= 1; return b })},
	"cut off for ever":     {test: spoiledForEver(func(b []byte) []byte { return b[:len(b)/2] })},
	"empty":                {test: spoiledForEver(func([]byte) []byte { return []byte{} })},
	"something else in it": {test: spoiledForEver(func([]byte) []byte { return []byte("<html>") })},
	"evicted": {test: func(t *testing.T, s *service) {
		s.primed(t)
		s.Evict(s.key, false)
		s.requireLoaded(t, s.lane(t), report.Registry, "::warning…pulled from the registry")
	}},
	"read denied by the token": {test: func(t *testing.T, s *service) {
		s.env["ACTIONS_RUNTIME_TOKEN"] = writingToken
		s.requireLoaded(t, s.lane(t), report.Registry, "::warning…may not read the cache")
		require.Empty(t, s.Requests())
	}},
	"read denied by the service": {test: func(t *testing.T, s *service) {
		s.Always(cachetest.Lookup, regtest.Answer(http.StatusForbidden, "application/json", `{"code":"permission_denied","msg":"no scope"}`))
		requireFailed(t, s.prime(t), "::error…permission_denied: no scope")
		s.requireLoaded(t, s.lane(t), report.Registry, "::warning…permission_denied: no scope")
	}},
	"nobody there": {test: func(t *testing.T, s *service) {
		require.NoError(t, s.Close())
		requireFailed(t, s.prime(t, "timeout", "3s"), "::error…connection refused")
		s.requireLoaded(t, s.lane(t, "timeout", "3s"), report.Registry, "::warning…connection refused")
	}},
}

// spoiledOnce is a fault that meets the second range, which is a layer's, and that another try cures.
func spoiledOnce(fault regtest.Fault) func(*testing.T, *service) {
	return func(t *testing.T, s *service) {
		s.primed(t)
		s.Forget()
		s.Script(cachetest.GetBlob, regtest.Pass, fault)
		s.requireLoaded(t, s.lane(t), report.Cache)
		require.Greater(t, len(s.Requests(cachetest.GetBlob)), 2, "nothing was read again")
	}
}

// spoiledForEver is an entry that no longer is what was saved: a lane pulls, prime with verify: full saves the next
// generation, and lanes load that.
func spoiledForEver(change func([]byte) []byte) func(*testing.T, *service) {
	return func(t *testing.T, s *service) {
		s.primed(t)
		s.Spoil(s.key, change)
		s.requireLoaded(t, s.lane(t), report.Registry, "::warning…pulled from the registry")
		full := s.prime(t, "verify", "full")
		require.Equal(t, 0, full.code)
		full.requireAnnotations(t, "::notice…the entry is corrupt and is replaced")
		s.requireKeys(t, s.key, s.key+".1")
		s.daemon.docker(t, "image", "rm", s.reference)
		s.requireLoaded(t, s.lane(t), report.Cache)
	}
}

func TestWireCases(t *testing.T) {
	gate(t)
	d := engine{name: "classic"}.start(t)
	r := startRegistry(t, tempDir(t))
	t.Run("cases", func(t *testing.T) { // done before the daemon ends
		for i, name := range slices.Sorted(maps.Keys(wireCases)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				wireCases[name].test(t, newService(t, wireCases[name].options, r, d, "case-"+strconv.Itoa(i)))
			})
		}
	})
}
