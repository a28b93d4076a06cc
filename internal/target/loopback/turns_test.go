package loopback

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// takeLater takes the turn of a layer after some time, keeps it for a second and notes it.
func takeLater(t *testing.T, turns *turns, layer int, after time.Duration, order *[]int) {
	go func() {
		time.Sleep(after)
		done, err := turns.take(t.Context(), layer)
		if err != nil {
			t.Error(err)
			return
		}
		*order = append(*order, layer)
		time.Sleep(time.Second)
		done()
	}()
}

func TestTurnsGoToTheLowest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		var order []int
		began := time.Now()
		for layer, after := range []time.Duration{3: time.Millisecond, 2: 2 * time.Millisecond, 1: 3 * time.Millisecond, 0: 4 * time.Millisecond, 4: 0, 5: 0} {
			takeLater(t, turns, layer, after, &order)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4, 5}, order)
		require.Equal(t, time.Minute, time.Since(began))
	})
}

// A client that has the lowest layers does not ask for them.
func TestTheFirstToAskDoesNotWaitForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		began := time.Now()
		done, err := turns.take(t.Context(), 3)
		require.NoError(t, err)
		require.Equal(t, settleTime, time.Since(began))
		done()
		done, err = turns.take(t.Context(), 5)
		require.NoError(t, err)
		done()
		require.Equal(t, settleTime, time.Since(began), "that is once")
	})
}

func TestWhoeverStopsWaitingHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		done, err := turns.take(t.Context(), 0)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = turns.take(ctx, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = turns.take(ctx, 2)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var order []int
		takeLater(t, turns, 3, 0, &order)
		synctest.Wait()
		require.Empty(t, order)
		done()
		synctest.Wait()
		require.Equal(t, []int{3}, order)
		time.Sleep(time.Minute)
	})
}

// A turn that was given to somebody who had just gone goes to the next.
func TestATurnThatNobodyTakesIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		close(turns.begun)
		mine := turn{1, make(chan struct{})}
		turns.waiting = append(turns.waiting, mine)
		turns.next()
		turns.leave(mine)
		done, err := turns.take(t.Context(), 2)
		require.NoError(t, err)
		done()
	})
}
