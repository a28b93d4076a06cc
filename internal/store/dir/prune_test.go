package dir

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/store"
)

func TestPrune(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, test := range []struct {
		name    string
		options store.PruneOptions
		want    []string // "<saved key> <reason>"
	}{
		{"nothing but what is superseded", store.PruneOptions{}, []string{"b superseded", "b.1 superseded"}},
		{"what is not kept", store.PruneOptions{Keep: func(key string) bool { return key == "a" }}, []string{"b superseded", "b.1 superseded", "b.2 not kept", "c not kept"}},
		{"what is old", store.PruneOptions{OlderThan: 2 * day}, []string{"b superseded", "b.1 superseded", "c old"}},
		{"nothing is that old", store.PruneOptions{OlderThan: 30 * day}, []string{"b superseded", "b.1 superseded"}},
		{"both", store.PruneOptions{OlderThan: 2 * day, Keep: func(key string) bool { return key != "a" }}, []string{"a not kept", "b superseded", "b.1 superseded", "c old"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			for _, saved := range []string{"a", "b", "b.1", "b.2", "c"} {
				save(t, s, saved, imagetest.Options{})
			}
			past := time.Now().Add(-7 * day)
			require.NoError(t, os.Chtimes(s.Path("c"), past, past))
			before := tree(t, s)

			dry := test.options
			dry.DryRun = true
			would, err := s.Prune(t.Context(), dry)
			require.NoError(t, err)
			require.Equal(t, before, tree(t, s), "a dry run removes nothing")

			pruned, err := s.Prune(t.Context(), test.options)
			require.NoError(t, err)
			require.Equal(t, would, pruned)
			var got []string
			for _, p := range pruned {
				saved := store.Generation(p.Key, p.Generation)
				got = append(got, saved+" "+string(p.Reason))
				require.Equal(t, s.Path(saved), p.Path)
				require.Positive(t, p.Size)
				before = slices.DeleteFunc(before, func(path string) bool { return path == saved || filepath.Dir(path) == saved })
			}
			require.Equal(t, test.want, got)
			require.Equal(t, before, tree(t, s))
		})
	}
}

func TestPruneOfAStoreThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	pruned, err := s.Prune(t.Context(), store.PruneOptions{})
	require.NoError(t, err)
	require.Empty(t, pruned)
	require.NoDirExists(t, s.path)
}

// One file that can't be removed does not keep the others.
func TestPruneGoesOn(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, saved := range []string{"a", "b", "c"} {
		save(t, s, saved, imagetest.Options{})
	}
	require.NoError(t, replace(s.Path("b"), func() error { return os.MkdirAll(filepath.Join(s.Path("b"), "full"), 0o755) }))
	pruned, err := s.Prune(t.Context(), store.PruneOptions{Keep: func(string) bool { return false }})
	require.ErrorContains(t, err, "pruning "+s.path)
	require.Len(t, pruned, 2)
	require.Equal(t, []string{".gitignore", "b", "b/image.tar", "b/image.tar/full"}, tree(t, s))
}
