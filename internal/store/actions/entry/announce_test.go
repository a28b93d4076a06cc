package entry_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/store/actions/entry"
)

// slowly has each read of a memory take 10 ms.
func slowly(int64, int, []byte) error {
	time.Sleep(10 * time.Millisecond)
	return nil
}

// frames are those of each layer of the large image.
const frames = 3

func TestALayerThatIsAnnouncedComesWhileTheOneBeforeItIsRead(t *testing.T) {
	t.Parallel()
	img := large(t)
	data := ours(t, img)
	synctest.Test(t, func(t *testing.T) {
		m := &memory{data: data}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got, err := newReader(t).Open(ctx, m, m.prefix(), key)
		require.NoError(t, err)
		got.Announce(1, 2)
		require.Equal(t, layer(t, img, 1), layer(t, got, 1))
		synctest.Wait()
		require.Equal(t, 2*frames, m.gets)
		require.Equal(t, layer(t, img, 2), layer(t, got, 2))
		require.Equal(t, layer(t, img, 3), layer(t, got, 3))
		require.Equal(t, 3*frames, m.gets, "nothing is read twice")
	})
}

func TestWhoReadsAllWaitsForNoLayer(t *testing.T) {
	t.Parallel()
	img := large(t)
	data := ours(t, img)
	synctest.Test(t, func(t *testing.T) {
		m := &memory{data: data, spoil: slowly}
		r, err := entry.NewReader(6)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got, err := r.Open(ctx, m, m.prefix(), key)
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, image.Verify(t.Context(), got))
		require.Equal(t, 20*time.Millisecond, time.Since(began), "12 frames, 7 at a time")
		require.Equal(t, 4*frames, m.gets)
	})
}

// A layer that was announced and is not asked for keeps others from reading ahead for a second, no longer.
func TestWhatNobodyAsksForIsGivenUpToWhoeverReads(t *testing.T) {
	t.Parallel()
	data := ours(t, large(t))
	synctest.Test(t, func(t *testing.T) {
		r, err := entry.NewReader(6)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		open := func() image.Image {
			m := &memory{data: data, spoil: slowly}
			got, err := r.Open(ctx, m, m.prefix(), key)
			require.NoError(t, err)
			return got
		}
		left := open()
		left.Announce(0, 1, 2, 3)
		layer(t, left, 0)
		for _, tc := range []struct{ idle, want time.Duration }{
			{0, 4 * frames * 10 * time.Millisecond},
			{2 * time.Second, 20 * time.Millisecond},
		} {
			time.Sleep(tc.idle)
			other := open()
			began := time.Now()
			require.NoError(t, image.Verify(t.Context(), other))
			require.Equal(t, tc.want, time.Since(began))
		}
		require.NoError(t, image.Verify(t.Context(), left), "it can still be read")
	})
}

// A reader whose bytes are consumed slowly reads ahead no further than its share, so that others get theirs.
func TestASlowReaderLeavesTheOthersTheirShare(t *testing.T) {
	t.Parallel()
	data := ours(t, large(t))
	synctest.Test(t, func(t *testing.T) {
		r, err := entry.NewReader(6)
		require.NoError(t, err)
		open := func() image.Image {
			m := &memory{data: data, spoil: slowly}
			got, err := r.Open(t.Context(), m, m.prefix(), key)
			require.NoError(t, err)
			return got
		}
		slow, fast := open(), open()
		slow.Announce(0, 1, 2, 3)
		first, err := slow.Layer(t.Context(), 0)
		require.NoError(t, err)
		other, err := fast.Layer(t.Context(), 3)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, first) // three frames of the seven that it has
		require.NoError(t, err)
		require.NoError(t, first.Close())
		second, err := slow.Layer(t.Context(), 1)
		require.NoError(t, err)
		defer second.Close()
		require.NoError(t, other.Close())

		began := time.Now()
		require.NoError(t, image.Verify(t.Context(), fast))
		require.Equal(t, 40*time.Millisecond, time.Since(began), "12 frames, 3 at a time: what the other holds already stays its own")
	})
}
