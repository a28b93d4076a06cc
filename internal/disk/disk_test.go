package disk

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoom(t *testing.T) {
	t.Parallel()
	require.NoError(t, enough("/data", 100, 100))
	require.EqualError(t, enough("/data", 3_000_000_000, 1_234_567),
		"there would be no space left on device: at least 3000.0 MB are needed, 1.2 MB are free at /data")
	for path, known := range map[string]bool{t.TempDir(): true, "/nowhere": false} {
		free, ok := Free(path)
		require.Equal(t, known, ok, path)
		require.Equal(t, known, free > 0, path)
		require.Equal(t, known, Room(path, 1<<62) != nil, path)
	}
	require.NoError(t, Room("", 1<<62))
}
