package loopback

import (
	"context"
	"math/rand/v2"
	"sync"
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
		turns := newTurns(6, false)
		var order []int
		for layer, after := range []time.Duration{3: time.Millisecond, 2: 2 * time.Millisecond, 1: 3 * time.Millisecond, 0: 4 * time.Millisecond, 4: 0, 5: 0} {
			takeLater(t, turns, layer, after, &order)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4, 5}, order)
	})
}

// A client that has the lowest layers does not ask for them.
func TestTheFirstToAskDoesNotWaitForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(6, false)
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
	for _, sorts := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			turns := newTurns(4, sorts)
			defer turns.stop()
			done, err := turns.take(t.Context(), 0)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = turns.take(ctx, 1)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			var order []int
			takeLater(t, turns, 1, 0, &order)
			synctest.Wait()
			require.Empty(t, order)
			done()
			synctest.Wait()
			require.Equal(t, []int{1}, order)
			time.Sleep(time.Minute)
		})
	}
}

// A turn that was given to somebody who had just gone goes to the next.
func TestATurnThatNobodyTakesIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(3, false)
		mine := turn{0, make(chan error, 1)}
		turns.ask(mine)
		turns.leave(mine)
		done, err := turns.take(t.Context(), 2)
		require.NoError(t, err)
		done()
	})
}

// containerd has some layers open at once, in an order of chance, and asks again for one that was sent away behind the others.
type client struct {
	turns *turns
	slots chan struct{}
	mu    sync.Mutex
	order []int
	tries map[int]int
}

func (c *client) pull(t *testing.T, layers []int) {
	var all sync.WaitGroup
	for _, layer := range layers {
		time.Sleep(time.Microsecond) // those who want a slot get it in their order
		all.Go(func() {
			for c.get(t, layer) != nil {
			}
		})
	}
	all.Wait()
}

func (c *client) get(t *testing.T, layer int) error {
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
	done, err := c.turns.take(t.Context(), layer)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.tries[layer]++
		return err
	}
	c.order = append(c.order, layer) // one at a time is here
	time.Sleep(time.Second)
	done()
	return nil
}

func TestLayersThatAreAskedForByChanceAreSorted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		layers, slots int
		asked         []int
		want          []int
	}{
		"backwards":               {6, 3, []int{5, 4, 3, 2, 1, 0}, []int{0, 1, 2, 3, 4, 5}},
		"in order":                {6, 3, []int{0, 1, 2, 3, 4, 5}, []int{0, 1, 2, 3, 4, 5}},
		"mixed":                   {8, 3, []int{7, 2, 5, 0, 6, 1, 4, 3}, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		"the base is there":       {8, 3, []int{7, 5, 6, 4}, []int{4, 5, 6, 7}},
		"few, and the base there": {8, 3, []int{7, 6}, []int{6, 7}},
		"one":                     {8, 3, []int{7}, []int{7}},
		"one slot":                {3, 1, []int{2, 1, 0}, []int{0, 1, 2}},
		"all at once":             {6, 10, []int{5, 4, 3, 2, 1, 0}, []int{0, 1, 2, 3, 4, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &client{turns: newTurns(test.layers, true), slots: make(chan struct{}, test.slots), tries: map[int]int{}}
				defer c.turns.stop()
				began := time.Now()
				c.pull(t, test.asked)
				require.Equal(t, test.want, c.order)
				require.Less(t, time.Since(began), time.Duration(len(test.asked))*time.Second+200*time.Millisecond)
				for layer, tries := range c.tries {
					require.LessOrEqual(t, tries, maxTries, "layer %d", layer)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// However many layers there are, each comes, none is sent away too often, and the lowest come early.
func TestManyLayersAllCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const layers = 100
		c := &client{turns: newTurns(layers, true), slots: make(chan struct{}, 3), tries: map[int]int{}}
		defer c.turns.stop()
		c.pull(t, rand.New(rand.NewPCG(1, 2)).Perm(layers))
		require.Len(t, c.order, layers)
		require.Equal(t, []int{0, 1, 2}, c.order[:3])
		for layer, tries := range c.tries {
			require.LessOrEqual(t, tries, maxTries, "layer %d", layer)
		}
		time.Sleep(time.Minute)
	})
}

func TestWhatIsComing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(6, false)
		var order []int
		for _, layer := range []int{4, 0, 2, 2} {
			takeLater(t, turns, layer, 0, &order)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Equal(t, []int{2, 4}, turns.coming(0), "each once, in its order")
		require.Equal(t, []int{4}, turns.coming(2))
		require.Empty(t, turns.coming(5))
		time.Sleep(time.Minute)
	})
}
