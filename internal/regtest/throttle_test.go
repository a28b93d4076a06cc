package regtest_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/regtest"
)

func TestThrottleIsExactAndByClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := regtest.New(regtest.Options{Throttle: &regtest.Throttle{Requests: 1, Window: time.Second, Burst: 2}})
		reg.Add("app:1", regtest.RandomImage(1, 1, 10))
		ask := func(client string) int {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://registry.example/v2/app/manifests/1", nil)
			require.NoError(t, err)
			resp, err := reg.Transport(client).RoundTrip(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			return resp.StatusCode
		}
		require.Equal(t, []int{200, 200, 429}, []int{ask("a"), ask("a"), ask("a")})
		require.Equal(t, 200, ask("b"), "another client has its own bucket")
		time.Sleep(time.Second - time.Nanosecond)
		require.Equal(t, 429, ask("a"))
		time.Sleep(time.Nanosecond)
		require.Equal(t, []int{200, 429}, []int{ask("a"), ask("a")})
		time.Sleep(time.Hour)
		require.Equal(t, []int{200, 200, 429}, []int{ask("a"), ask("a"), ask("a")}, "a bucket holds no more than its burst")
	})
}

func TestThrottleAdvice(t *testing.T) {
	t.Parallel()
	for title, c := range map[string]struct {
		advice       regtest.Advice
		header, body string
	}{
		"none":    {regtest.NoAdvice, "", "rate exceeded"},
		"seconds": {regtest.AdviceSeconds, "3", "rate exceeded"},
		"date":    {regtest.AdviceDate, "Sat, 01 Jan 2000 00:00:03 GMT", "rate exceeded"},
		"body":    {regtest.AdviceBody, "", "retry-after: 2.5s, allowed: 2/5s"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				reg := regtest.New(regtest.Options{Throttle: &regtest.Throttle{
					Requests: 2, Window: 5 * time.Second, Burst: 1, Kinds: []regtest.Kind{regtest.KindPing}, Advice: c.advice,
				}})
				require.Equal(t, http.StatusOK, get(t, reg, "/v2/").StatusCode)
				resp := get(t, reg, "/v2/")
				require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
				require.Equal(t, c.header, resp.Header.Get("Retry-After"))
				require.Contains(t, body(t, resp), c.body)
			})
		})
	}
}

func TestThrottleHubHeaders(t *testing.T) {
	t.Parallel()
	reg := regtest.New(regtest.Options{Throttle: &regtest.Throttle{Requests: 100, Window: 6 * time.Hour, HubHeaders: true}})
	reg.Add("app:1", regtest.RandomImage(1, 1, 10))
	resp := get(t, reg, "/v2/app/manifests/1")
	require.Equal(t, "100;w=21600", resp.Header.Get("Ratelimit-Limit"))
	require.Equal(t, "99;w=21600", resp.Header.Get("Ratelimit-Remaining"))
	require.Equal(t, "10.0.0.1", resp.Header.Get("Docker-Ratelimit-Source"))
}
