package containerd

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image/imagetest"
)

// A load waits for those announced before it with which it may have layers in common, until they have said what they bring,
// and not for ever.
func TestAnnouncedFirstIsFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var q queue
		first := q.enter(imagetest.New(t, imagetest.Options{Layers: 2}))
		second := q.enter(imagetest.New(t, imagetest.Options{Layers: 3}))
		other := q.enter(imagetest.New(t, imagetest.Options{Seed: 7}))
		empty := q.enter(imagetest.New(t, imagetest.Options{Layers: -1}))
		waits := func(s *ticket) time.Duration {
			began := time.Now()
			q.turn(t.Context(), s)
			return time.Since(began)
		}
		require.Zero(t, waits(first))
		require.Zero(t, waits(other))
		require.Zero(t, waits(empty))
		require.Equal(t, announceTime, waits(second))

		time.AfterFunc(time.Second, func() { q.leave(first) })
		require.Equal(t, time.Second, waits(second))
		q.leave(first)
		require.Zero(t, waits(second), "it has left")

		pulled := q.enter(imagetest.New(t, imagetest.Options{Layers: 4}).Unawaited())
		last := q.enter(imagetest.New(t, imagetest.Options{Layers: 5}))
		require.Equal(t, announceTime, waits(pulled), "for the second")
		q.leave(second)
		require.Zero(t, waits(last), "nobody waits for what may take long")
		q.leave(pulled)
	})
}
