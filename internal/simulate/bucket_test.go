package simulate

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/regtest"
)

// TestTheBucketIsTheTestRegistrys asks both at the same moments.
func TestTheBucketIsTheTestRegistrys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := regtest.New(regtest.Options{Throttle: &regtest.Throttle{Requests: 3, Window: time.Second, Burst: 5, Kinds: []regtest.Kind{regtest.KindPing}}})
		ours := newBucket(3, time.Second, 5)
		random, start, shed := rand.New(rand.NewPCG(1, 1)), time.Now(), 0
		for range 500 {
			time.Sleep(time.Duration(random.Int64N(int64(600 * time.Millisecond))))
			recorder := httptest.NewRecorder()
			registry.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/", nil))
			refused := ours.take(time.Since(start)) > 0
			require.Equal(t, recorder.Code == http.StatusTooManyRequests, refused)
			if refused {
				shed++
			}
		}
		require.Positive(t, shed)
		require.Less(t, shed, 400)
	})
}

func TestABucketSaysWhenThereIsAToken(t *testing.T) {
	t.Parallel()
	b := newBucket(1, time.Second, 2)
	require.Equal(t, []time.Duration{0, 0, time.Second, 0, time.Second / 2},
		[]time.Duration{b.take(0), b.take(0), b.take(0), b.take(time.Second), b.take(3 * time.Second / 2)})
	b.drain(1)
	require.Equal(t, time.Second, b.take(0))
}

func TestAQuotaStartsAnewWithTheMinute(t *testing.T) {
	t.Parallel()
	q := quota{most: 2, phase: 20 * time.Second}
	require.Equal(t, []time.Duration{0, 0, 35 * time.Second, 0, 0, time.Minute},
		[]time.Duration{q.take(0), q.take(0), q.take(5 * time.Second), q.take(40 * time.Second), q.take(40 * time.Second), q.take(40 * time.Second)})
}

func TestEventsComeInOrder(t *testing.T) {
	t.Parallel()
	var q queue
	random := rand.New(rand.NewPCG(1, 1))
	var want, got []event
	for i := range 1000 {
		e := event{time.Duration(random.IntN(300)), int32(i)}
		want = append(want, e)
		q.push(e)
	}
	slices.SortFunc(want, func(a, b event) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	for len(q) > 0 {
		got = append(got, q.pop())
	}
	require.Equal(t, want, got)
}
