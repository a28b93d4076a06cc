package dir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/store"
)

const key = "pullonce-v1-test-linux-amd64-0123456789abcdef"

func newStore(t *testing.T) *Store {
	t.Helper()
	s, err := New(filepath.Join(t.TempDir(), ".pullonce"))
	require.NoError(t, err)
	return s
}

func TestSaveThenOpen(t *testing.T) {
	t.Parallel()
	s, img := newStore(t), imagetest.New(t, imagetest.Options{Index: true, Layers: 3})
	require.NoError(t, s.Save(t.Context(), key, img))

	entry, err := s.Stat(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, key, entry.Key)
	require.Equal(t, image.EncodedSize(img), entry.Size)

	got, err := s.Open(t.Context(), key)
	require.NoError(t, err)
	require.NoError(t, got.Is(img.Reference(), img.Platform()))
	require.NoError(t, image.Verify(t.Context(), got))
	require.Equal(t, []string{".gitignore", key, key + "/image.tar"}, tree(t, s))
}

func TestAbsenceIsNotFound(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	_, err := s.Stat(t.Context(), key)
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = s.Open(t.Context(), key)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.NoDirExists(t, s.path)
}

// tree is every path below the store.
func tree(t *testing.T, s *Store) []string {
	t.Helper()
	var paths []string
	require.NoError(t, filepath.WalkDir(s.path, func(path string, _ os.DirEntry, err error) error {
		if path != s.path {
			rel, _ := filepath.Rel(s.path, path)
			paths = append(paths, rel)
		}
		return err
	}))
	return paths
}
