package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/store"
)

func TestGenerationsComeApartAsTheyWerePutTogether(t *testing.T) {
	t.Parallel()
	const key = "pullonce-v1-redis-linux-amd64-0123456789abcdef"
	require.Equal(t, key, store.Generation(key, 0))
	require.Equal(t, key+".3", store.Generation(key, 3))
	for _, n := range []int{0, 1, 2, 3, 10, 1000} {
		got, gotN := store.ParseGeneration(store.Generation(key, n))
		require.Equal(t, key, got)
		require.Equal(t, n, gotN)
	}
}

func TestWhatIsNoGenerationIsAKey(t *testing.T) {
	t.Parallel()
	for _, saved := range []string{
		"", "key", "key.", "key.0", "key.01", "key.+1", "key.-1", "key.1x", "key.x1", "key. 1", ".1", "key.1.", "key.99999999999999999999", "key.9223372036854775807", "key.1048577", "key.٣",
	} {
		key, n := store.ParseGeneration(saved)
		require.Equal(t, saved, key)
		require.Zero(t, n)
	}
	key, n := store.ParseGeneration("pullonce-v1-a.b-linux-amd64-0123456789abcdef.2.1")
	require.Equal(t, "pullonce-v1-a.b-linux-amd64-0123456789abcdef.2", key)
	require.Equal(t, 1, n)
}
