package tempfile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/tempfile"
)

func TestNothingIsLeftOfAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := tempfile.Create(dir, "layer-*")
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.Empty(t, names(t, dir), "a process that is killed leaves nothing either")
	}
	_, err = f.WriteString("content")
	require.NoError(t, err)
	got := make([]byte, 7)
	_, err = f.ReadAt(got, 0)
	require.NoError(t, err)
	require.Equal(t, "content", string(got))
	require.NoError(t, f.Discard())
	require.Empty(t, names(t, dir))
	require.ErrorIs(t, f.Discard(), os.ErrClosed)
}

func TestNoFolderIsAnError(t *testing.T) {
	t.Parallel()
	_, err := tempfile.Create(filepath.Join(t.TempDir(), "absent"), "layer-*")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func names(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	return entries
}
