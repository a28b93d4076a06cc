package dir

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/store"
)

// A pipe would block whoever opens it.
func TestAPipeInPlaceOfTheArchiveIsCorrupt(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	save(t, s, key, imagetest.Options{})
	require.NoError(t, replace(s.Path(key), func() error { return syscall.Mkfifo(s.Path(key), 0o644) }))
	_, err := s.Open(t.Context(), key)
	require.ErrorIs(t, err, store.ErrCorrupt)
}

// A real disk that is full, not a writer that says so: part of the end-to-end suite, because mounting needs root.
func TestAFullDisk(t *testing.T) {
	if os.Getenv("PULLONCE_E2E") != "1" {
		t.Skip("PULLONCE_E2E is not set")
	}
	t.Parallel()
	disk := t.TempDir()
	require.NoError(t, syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=256k"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(disk, 0)) })
	s, err := New(disk)
	require.NoError(t, err)
	save(t, s, "small", imagetest.Options{})

	err = s.Save(t.Context(), key, imagetest.New(t, imagetest.Options{LayerSize: 1 << 20}))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, disk)
	require.Equal(t, []string{".gitignore", "small", "small/image.tar"}, tree(t, s))
	_, err = s.Stat(t.Context(), key)
	require.ErrorIs(t, err, store.ErrNotFound)
	save(t, s, key, imagetest.Options{})
}
