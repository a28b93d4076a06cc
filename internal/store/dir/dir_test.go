package dir

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

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

func save(t *testing.T, s *Store, key string, o imagetest.Options) image.Image {
	t.Helper()
	img := imagetest.New(t, o)
	require.NoError(t, s.Save(t.Context(), key, img))
	return img
}

// tree is every path below the store.
func tree(t *testing.T, s *Store) []string {
	t.Helper()
	var paths []string
	require.NoError(t, filepath.WalkDir(s.path, func(path string, _ os.DirEntry, err error) error {
		if path != s.path {
			rel, relErr := filepath.Rel(s.path, path)
			require.NoError(t, relErr)
			paths = append(paths, filepath.ToSlash(rel))
		}
		return err
	}))
	return paths
}

func TestSaveThenOpen(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	img := save(t, s, key, imagetest.Options{Index: true, Layers: 3})

	entry, err := s.Stat(t.Context(), key)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), entry.Saved, time.Minute)
	entry.Saved = time.Time{}
	require.Equal(t, store.Entry{Key: key, Size: image.EncodedSize(img)}, entry)

	got, err := s.Open(t.Context(), key)
	require.NoError(t, err)
	require.NoError(t, got.Is(img.Reference(), img.Platform()))
	require.NoError(t, image.Verify(t.Context(), got))
	require.Equal(t, []string{".gitignore", key, key + "/image.tar"}, tree(t, s))
	require.FileExists(t, s.Path(key))
	ignored, err := os.ReadFile(filepath.Join(s.path, ".gitignore"))
	require.NoError(t, err)
	require.Equal(t, "*\n", string(ignored))
}

func TestAStoreNeedsAPath(t *testing.T) {
	t.Parallel()
	_, err := New("")
	require.ErrorContains(t, err, "needs a path")
}

func TestAbsenceIsNotFound(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	check := func() {
		_, err := s.Stat(t.Context(), key)
		require.ErrorIs(t, err, store.ErrNotFound)
		_, err = s.Open(t.Context(), key)
		require.ErrorIs(t, err, store.ErrNotFound)
		_, err = s.Inspect(t.Context(), key)
		require.ErrorIs(t, err, store.ErrNotFound)
	}
	check()
	require.NoDirExists(t, s.path, "reading makes nothing")
	save(t, s, "another", imagetest.Options{})
	save(t, s, key+"x", imagetest.Options{})
	save(t, s, key+"-1.2", imagetest.Options{})
	check()
	require.NoError(t, os.WriteFile(filepath.Join(s.path, key), nil, 0o644))
	check()
	require.NoError(t, os.Mkdir(filepath.Join(s.path, key+".1"), 0o755))
	check()
}

func TestTheNewestGenerationIsRead(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, n := range []int{1, 10, 0, 2} {
		save(t, s, store.Generation(key, n), imagetest.Options{Seed: uint64(n)})
	}
	newest := imagetest.New(t, imagetest.Options{Seed: 10})
	entry, err := s.Stat(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, key, entry.Key)
	require.Equal(t, 10, entry.Generation)
	got, err := s.Open(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, newest.Root(), got.Root())

	second, err := s.Open(t.Context(), store.Generation(key, 2))
	require.NoError(t, err, "a generation can be asked for by its own name")
	require.Equal(t, imagetest.New(t, imagetest.Options{Seed: 2}).Root(), second.Root())
}

func TestAKeyThatIsThereStaysAsItIs(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	first := save(t, s, key, imagetest.Options{Seed: 1})
	save(t, s, key, imagetest.Options{Seed: 2})
	got, err := s.Open(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, first.Root(), got.Root())
}

func TestKeysAreOnePathSegment(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	img := imagetest.New(t, imagetest.Options{})
	for _, bad := range []string{"", ".", "..", "../x", "a/b", "/a", `a\b`, ".hidden", ".gitignore", "a\x00", "a\n", "a b", "a,b", "a:b", "ä"} {
		_, err := s.Stat(t.Context(), bad)
		require.ErrorContains(t, err, "invalid key", bad)
		_, err = s.Open(t.Context(), bad)
		require.ErrorContains(t, err, "invalid key", bad)
		_, err = s.Inspect(t.Context(), bad)
		require.ErrorContains(t, err, "invalid key", bad)
		require.ErrorContains(t, s.Save(t.Context(), bad, img), "invalid key", bad)
	}
	require.NoDirExists(t, s.path)
}

func TestACorruptEntryIsNoMiss(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "image.tar")
	for name, spoil := range map[string]func(path string) error{
		"empty":      func(path string) error { return os.Truncate(path, 0) },
		"cut short":  func(path string) error { return os.Truncate(path, 3000) },
		"no archive": func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("x"), 9000), 0o644) },
		"folder":     func(path string) error { return replace(path, func() error { return os.Mkdir(path, 0o755) }) },
		"link": func(path string) error {
			return replace(path, func() error { return os.Symlink("../other/image.tar", path) })
		},
		"link far away": func(path string) error { return replace(path, func() error { return os.Symlink(outside, path) }) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			save(t, s, key, imagetest.Options{})
			save(t, s, "other", imagetest.Options{})
			require.NoError(t, spoil(s.Path(key)))
			entry, err := s.Stat(t.Context(), key)
			require.ErrorIs(t, err, store.ErrCorrupt, "whoever saves must take the next generation")
			require.Equal(t, 0, entry.Generation)
			_, err = s.Open(t.Context(), key)
			require.ErrorIs(t, err, store.ErrCorrupt)
			require.NotErrorIs(t, err, store.ErrNotFound)
			found, err := s.Inspect(t.Context(), key)
			require.NoError(t, err)
			require.ErrorIs(t, found.Problem, store.ErrCorrupt)

			better := save(t, s, store.Generation(key, 1), imagetest.Options{Seed: 1})
			got, err := s.Open(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, better.Root(), got.Root())
		})
	}
}

func replace(path string, with func() error) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return with()
}

// What Open does not read, reading the layer finds out, and Inspect.
func TestACorruptLayerIsSeenWhenItIsRead(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	img := save(t, s, key, imagetest.Options{LayerSize: 100_000})
	found, err := s.Inspect(t.Context(), key)
	require.NoError(t, err)
	require.NoError(t, found.Problem)
	require.Equal(t, s.Path(key), found.Path)
	require.Equal(t, img.Root(), found.Image.Root())
	require.Equal(t, image.EncodedSize(img), found.Entry.Size)

	f, err := os.OpenFile(s.Path(key), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("spoiled"), 50_000)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	got, err := s.Open(t.Context(), key)
	require.NoError(t, err)
	require.ErrorIs(t, image.Verify(t.Context(), got), image.ErrVerify)
	found, err = s.Inspect(t.Context(), key)
	require.NoError(t, err)
	require.ErrorIs(t, found.Problem, store.ErrCorrupt)
	require.Equal(t, img.Root(), found.Image.Root())
}

func TestAnOpenImageSurvivesReplacement(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	save(t, s, key, imagetest.Options{LayerSize: 100_000})
	ctx, cancel := context.WithCancel(t.Context())
	img, err := s.Open(ctx, key)
	require.NoError(t, err)
	pruned, err := s.Prune(t.Context(), store.PruneOptions{Keep: func(string) bool { return false }})
	require.NoError(t, err)
	require.Len(t, pruned, 1)
	save(t, s, key, imagetest.Options{Seed: 7})
	require.NoError(t, image.Verify(t.Context(), img))

	cancel()
	require.Eventually(t, func() bool { return image.Verify(t.Context(), img) != nil }, 10*time.Second, time.Millisecond,
		"the file is closed when the context ends")
}

func TestListIsSortedAndWhole(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	entries, err := s.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, entries)
	for _, saved := range []string{"b.10", "b.2", "b", "a.1"} {
		save(t, s, saved, imagetest.Options{})
	}
	require.NoError(t, os.Mkdir(filepath.Join(s.path, "empty"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(s.path, "notes"), nil, 0o644))
	entries, err = s.List(t.Context())
	require.NoError(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, store.Generation(e.Key, e.Generation))
		require.Positive(t, e.Size)
	}
	require.Equal(t, []string{"a.1", "b", "b.2", "b.10"}, got)
}

func TestAnEndedContextTouchesNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Save(ctx, key, imagetest.New(t, imagetest.Options{})), context.Canceled)
	require.NoDirExists(t, s.path)
	_, err := s.Open(ctx, key)
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Stat(ctx, key)
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.List(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Prune(ctx, store.PruneOptions{})
	require.ErrorIs(t, err, context.Canceled)
}

// A path that is no directory is a mistake of whoever set it, never a miss.
func TestAFileInPlaceOfTheStoreIsAnError(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	require.NoError(t, os.WriteFile(s.path, nil, 0o644))
	require.ErrorContains(t, s.Save(t.Context(), key, imagetest.New(t, imagetest.Options{})), s.path)
	_, err := s.Stat(t.Context(), key)
	require.ErrorContains(t, err, s.path)
	require.NotErrorIs(t, err, store.ErrNotFound)
}
