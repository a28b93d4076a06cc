package oci

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/store"
)

const day = 24 * time.Hour

// filled is a store with the entries a, b and old, of which a and old hold the same image.
func filled(t *testing.T, server *server) *Store {
	t.Helper()
	now := time.Now().Add(-7 * day)
	s := server.open(t, func(o *Options) { o.Now = func() time.Time { return now } })
	require.NoError(t, s.Save(t.Context(), "old", imagetest.New(t, imagetest.Options{})))
	now = time.Now()
	require.NoError(t, s.Save(t.Context(), "a", imagetest.New(t, imagetest.Options{})))
	require.NoError(t, s.Save(t.Context(), "b", imagetest.New(t, imagetest.Options{Seed: 1})))
	require.NoError(t, s.Save(t.Context(), "b.1", imagetest.New(t, imagetest.Options{Seed: 2})))
	server.take()
	return s
}

func keys(entries []store.Entry) []string {
	keys := []string{}
	for _, e := range entries {
		keys = append(keys, store.Generation(e.Key, e.Generation))
	}
	return keys
}

func TestListing(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := server.open(t)
	_, err := s.List(t.Context())
	require.ErrorIs(t, err, store.ErrNoPlace, "before the first push there is no repository")
	_, err = s.Prune(t.Context(), store.PruneOptions{})
	require.ErrorIs(t, err, store.ErrNoPlace)

	s = filled(t, server)
	putForeign(t, s, "theirs")
	entries, err := s.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b.1", "old"}, keys(entries))
	require.Positive(t, entries[0].Size)
	require.WithinDuration(t, time.Now(), entries[0].Saved, time.Minute)

	found, err := s.find(t.Context(), "a")
	require.NoError(t, err)
	server.set(replace("manifests/a", []byte(strings.Replace(string(found.data), `{\"formatVersion\":1`, `{\"formatVersion\":9`, 1))))
	entries, err = s.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b.1", "old"}, keys(entries), "one that can't be read is there to be inspected")
}

func TestPrune(t *testing.T) {
	t.Parallel()
	only := func(wanted ...string) func(string) bool {
		return func(key string) bool { return strings.Contains(strings.Join(wanted, " "), key) }
	}
	for _, test := range []struct {
		name    string
		options store.PruneOptions
		want    []string // "<saved key> <reason>"
		left    []string
		gone    []digest.Digest // images whose own manifests go too
	}{
		{name: "nothing", left: []string{"a", "b.1", "old"}},
		{name: "what is old", options: store.PruneOptions{OlderThan: 2 * day}, want: []string{"old old"}, left: []string{"a", "b.1"}},
		{
			name: "what is not kept", options: store.PruneOptions{Keep: only("b")}, want: []string{"a not kept", "old not kept"}, left: []string{"b.1"},
			gone: []digest.Digest{imagetest.New(t, imagetest.Options{}).Manifest().Digest},
		},
		{
			name: "all", options: store.PruneOptions{Keep: only()}, want: []string{"a not kept", "b.1 not kept", "old not kept"}, left: []string{},
			gone: []digest.Digest{imagetest.New(t, imagetest.Options{}).Manifest().Digest, imagetest.New(t, imagetest.Options{Seed: 2}).Manifest().Digest},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := newServer()
			s := filled(t, server)
			dry := test.options
			dry.DryRun = true
			would, err := s.Prune(t.Context(), dry)
			require.NoError(t, err)
			requests, _ := server.take()
			require.Zero(t, count(requests, "DELETE "))

			pruned, err := s.Prune(t.Context(), test.options)
			require.NoError(t, err)
			require.Equal(t, would, pruned)
			var got []string
			for _, p := range pruned {
				got = append(got, store.Generation(p.Key, p.Generation)+" "+string(p.Reason))
				require.Equal(t, repository+":"+p.Key, p.Path)
				require.Positive(t, p.Size)
			}
			require.Equal(t, test.want, got)
			requests, _ = server.take()
			require.Equal(t, len(test.want)+len(test.gone), count(requests, "DELETE manifests/sha256:"))
			for _, d := range test.gone {
				require.Contains(t, requests, "DELETE manifests/"+d.String())
			}
			entries, err := s.List(t.Context())
			require.NoError(t, err)
			require.Equal(t, test.left, keys(entries))
			for _, key := range test.left {
				key, _ := store.ParseGeneration(key)
				inspected, err := s.Inspect(t.Context(), key)
				require.NoError(t, err)
				require.NoError(t, inspected.Problem)
			}
		})
	}
}

// TestPruneSparesOthers: where somebody else has tags in the repository, only entries go.
// Of a recompressed image no manifest but the entry's is in the repository: the layers that its own lists are not.
func TestRecompressedImageIsOneManifest(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := server.open(t)
	img := imagetest.New(t, imagetest.Options{Index: true, Recompressed: true})
	require.NoError(t, s.Save(t.Context(), key, img))
	requests, _ := server.take()
	require.Equal(t, 1, count(requests, "PUT manifests/"))
	pruned, err := s.Prune(t.Context(), store.PruneOptions{Keep: func(string) bool { return false }})
	require.NoError(t, err)
	require.Len(t, pruned, 1)
	require.Greater(t, pruned[0].Size, img.Layers()[0].Descriptor.Size)
	requests, _ = server.take()
	require.Equal(t, 1, count(requests, "DELETE manifests/"))
}

func TestPruneSparesOthers(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := filled(t, server)
	putForeign(t, s, "theirs")
	server.take()
	pruned, err := s.Prune(t.Context(), store.PruneOptions{Keep: func(string) bool { return false }})
	require.NoError(t, err)
	require.Len(t, pruned, 3)
	requests, _ := server.take()
	require.Equal(t, 3, count(requests, "DELETE "))
	_, err = s.Open(t.Context(), "theirs")
	require.ErrorContains(t, err, "was not saved by pullonce")
}

func TestPruneOfARegistryThatDropsAnEmptyRepository(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := filled(t, server)
	var deleted atomic.Bool
	server.set(func(w http.ResponseWriter, r *http.Request) bool {
		deleted.CompareAndSwap(false, r.Method == http.MethodDelete)
		return deleted.Load() && answer(http.StatusNotFound, `{"errors":[{"code":"NAME_UNKNOWN"}]}`, func(r *http.Request) bool {
			return strings.HasSuffix(r.URL.Path, "/tags/list")
		})(w, r)
	})
	pruned, err := s.Prune(t.Context(), store.PruneOptions{Keep: func(string) bool { return false }})
	require.NoError(t, err)
	require.Len(t, pruned, 3)
}

// TestARegistryThatDeletesNothing says so once, and leaves all as it is.
func TestARegistryThatDeletesNothing(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := filled(t, server)
	server.set(answer(http.StatusMethodNotAllowed, `{"errors":[{"code":"UNSUPPORTED","message":"The operation is unsupported."}]}`,
		func(r *http.Request) bool { return r.Method == http.MethodDelete }))
	pruned, err := s.Prune(t.Context(), store.PruneOptions{Keep: func(string) bool { return false }})
	require.ErrorContains(t, err, "deleting a: the registry deletes nothing by this way")
	require.NotContains(t, err.Error(), "deleting b")
	require.Empty(t, pruned)
	entries, err := s.List(t.Context())
	require.NoError(t, err)
	require.Len(t, entries, 3)
}

// TestPruneGoesOn: what can't be deleted does not keep the rest.
func TestPruneGoesOn(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := filled(t, server)
	found, err := s.find(t.Context(), "a")
	require.NoError(t, err)
	server.set(answer(http.StatusForbidden, "", func(r *http.Request) bool {
		return r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, found.digest().String())
	}))
	pruned, err := s.Prune(t.Context(), store.PruneOptions{Keep: func(string) bool { return false }})
	require.ErrorContains(t, err, "deleting a: ")
	require.Len(t, pruned, 2)
	inspected, err := s.Inspect(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, inspected.Problem, "what is left is whole")
}

func TestInspectingWhatIsNotThere(t *testing.T) {
	t.Parallel()
	_, err := newServer().open(t).Inspect(t.Context(), key)
	require.ErrorIs(t, err, store.ErrNotFound)
}
