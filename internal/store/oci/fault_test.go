package oci

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/retry"
	"github.com/pullonce/pullonce/internal/store"
)

// TestBlobsThatAreSpoiled: what a registry has lost or changed since is noticed when it is read, as corrupt.
func TestBlobsThatAreSpoiled(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Layers: 2, LayerSize: 300_000})
	layer := img.Layers()[1].Descriptor.Digest.String()
	whole := blobOf(t, img, 1)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"lost":       answer(http.StatusNotFound, "", func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, layer) }),
		"changed":    replace(layer, flipped),
		"cut":        replace(layer, whole[:len(whole)/2]),
		"empty":      replace(layer, nil),
		"other text": replace(layer, bytes.Repeat([]byte("not here "), 100_000)),
	} {
		for _, how := range []string{"streamed", "spooled"} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				server := newServer()
				s := server.open(t, func(o *Options) {
					if how == "spooled" {
						o.Registry.SpoolDir = t.TempDir()
					}
				})
				require.NoError(t, s.Save(t.Context(), key, img))
				server.set(fault)
				got, err := s.Open(t.Context(), key)
				require.NoError(t, err)
				err = image.Verify(t.Context(), got)
				require.ErrorIs(t, err, store.ErrCorrupt)
				require.ErrorIs(t, err, image.ErrRead)
				inspected, err := s.Inspect(t.Context(), key)
				require.NoError(t, err)
				require.ErrorIs(t, inspected.Problem, store.ErrCorrupt)
			})
		}
	}
}

func blobOf(t *testing.T, img image.Image, i int) []byte {
	t.Helper()
	rc, err := img.Layer(t.Context(), i)
	require.NoError(t, err)
	defer rc.Close()
	data, err := io.ReadAll(rc)
	require.NoError(t, err)
	return data
}

// TestEntriesThatAreSpoiled: an entry that can't be used is corrupt to who opens it, and none at all to who looks it up,
// so that the next save puts a good one in its place.
func TestEntriesThatAreSpoiled(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Layers: 2, Index: true})
	change := func(from, to string) func(envelope) []byte {
		return func(e envelope) []byte {
			changed := bytes.Replace(e.data, []byte(from), []byte(to), 1)
			require.NotEqual(t, e.data, changed)
			return changed
		}
	}
	for name, test := range map[string]struct {
		spoil func(envelope) []byte
		stat  bool // Stat does not look so far
	}{
		"no annotations":        {spoil: change(entryAnnotation, "other")},
		"an entry's is no JSON": {spoil: change(`{\"formatVersion\"`, `{{\"formatVersion\"`)},
		"another format":        {spoil: change(`{\"formatVersion\":1`, `{\"formatVersion\":3`)},
		"another key":           {spoil: change(`\"key\":\"pullonce-v1-test`, `\"key\":\"pullonce-v1-best`)},
		"no platform":           {spoil: change(`linux/amd64`, `linux`)},
		"another platform":      {spoil: change(`linux/amd64`, `linux/s390x`), stat: true},
		"no manifest":           {spoil: change(manifestAnnotation, "other"), stat: true},
		"no root":               {spoil: change(rootAnnotation, "other"), stat: false},
		"no base64":             {spoil: change(`"`+configAnnotation+`":"H4s`, `"`+configAnnotation+`":"=4s`), stat: true},
		"no gzip":               {spoil: change(`"`+configAnnotation+`":"H4s`, `"`+configAnnotation+`":"I4s`), stat: true},
		"no documents of it":    {spoil: change(`"`+configAnnotation+`":"`, `"`+configAnnotation+`":"`+pack([]byte("{}"))+`","x":"`), stat: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer()
			s := server.open(t)
			require.NoError(t, s.Save(t.Context(), key, img))
			found, err := s.find(t.Context(), key)
			require.NoError(t, err)
			server.set(replace(key, test.spoil(found)))

			if name != "no root" { // then the manifest is taken for one, which a tag pin allows
				_, err = s.Open(t.Context(), key)
				require.ErrorIs(t, err, store.ErrCorrupt)
				inspected, err := s.Inspect(t.Context(), key)
				require.NoError(t, err)
				require.ErrorIs(t, inspected.Problem, store.ErrCorrupt)
				require.Equal(t, key, inspected.Entry.Key)
			}
			if _, err = s.Stat(t.Context(), key); test.stat || name == "no root" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, store.ErrNotFound)
			server.take()
			require.NoError(t, s.Save(t.Context(), key, img))
			requests, _ := server.take()
			require.Equal(t, 1, count(requests, "PUT manifests/"+key))
		})
	}
}

// TestAManifestThatIsSpoiled is one whose bytes are no longer those that its digest names.
func TestAManifestThatIsSpoiled(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := server.open(t)
	require.NoError(t, s.Save(t.Context(), key, imagetest.New(t, imagetest.Options{})))
	found, err := s.find(t.Context(), key)
	require.NoError(t, err)
	flipped := bytes.Clone(found.data)
	flipped[len(flipped)/2] ^= 1
	server.set(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Docker-Content-Digest", found.digest().String())
		return replace(key, flipped)(w, r)
	})
	_, err = s.Open(t.Context(), key)
	require.ErrorIs(t, err, store.ErrCorrupt)
	_, err = s.Stat(t.Context(), key)
	require.ErrorIs(t, err, store.ErrNotFound)
}

// TestReplacingWhatCanNotBeRead is prime's answer to a corrupt entry: the same image as the next generation. A blob that
// is gone is sent again; one that the registry holds on to can't be.
func TestReplacingWhatCanNotBeRead(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Layers: 3})
	layer := img.Layers()[1].Descriptor.Digest.String()
	t.Run("a blob is gone", func(t *testing.T) {
		t.Parallel()
		server := newServer()
		s := server.open(t)
		require.NoError(t, s.Save(t.Context(), key, img))
		var sent atomic.Bool
		server.set(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut && strings.Contains(r.URL.RawQuery, "digest=") {
				sent.Store(true)
			}
			return !sent.Load() && answer(http.StatusNotFound, "", func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, layer) })(w, r)
		})
		server.take()
		again, read := watch(img)
		require.NoError(t, s.Save(t.Context(), store.Generation(key, 1), again))
		require.Equal(t, []string{layer}, read.read)
		requests, _ := server.take()
		require.Equal(t, 1, count(requests, "PATCH "))
		got, err := s.Open(t.Context(), key)
		require.NoError(t, err)
		requireSame(t, img, got)
	})
	t.Run("a blob is damaged", func(t *testing.T) {
		t.Parallel()
		server := newServer()
		s := server.open(t)
		require.NoError(t, s.Save(t.Context(), key, img))
		server.set(replace(layer, make([]byte, img.Layers()[1].Descriptor.Size)))
		err := s.Save(t.Context(), store.Generation(key, 1), img)
		require.ErrorContains(t, err, "the registry keeps a damaged copy of "+layer)
		require.NotErrorIs(t, err, store.ErrReadOnly)
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	const denied = `{"errors":[{"code":"DENIED","message":"requested access to the resource is denied"}]}`
	for name, test := range map[string]struct {
		status   int
		body     string
		readOnly bool
		want     string
		requests int // that wrote, or tried to
	}{
		"401":           {http.StatusUnauthorized, denied, true, "read-only: sending", 3},
		"403":           {http.StatusForbidden, denied, true, "403 Forbidden: denied: requested access to the resource is denied", 3},
		"a mirror":      {http.StatusMethodNotAllowed, `{"errors":[{"code":"UNSUPPORTED","message":"The operation is unsupported."}]}`, true, "405 Method Not Allowed: unsupported", 1},
		"too large":     {http.StatusRequestEntityTooLarge, "<html>", false, "the registry, or a proxy before it, takes no blob of this size: sending sha256:", 1},
		"full":          {http.StatusInsufficientStorage, "", false, "the registry has no room left: sending sha256:", 1},
		"Harbor's full": {http.StatusForbidden, `{"errors":[{"code":"DENIED","message":"adding 1.0 MiB of storage resource, which when updated to current usage of 9.9 MiB will exceed the configured upper limit of 10.0 MiB."}]}`, false, "the registry's quota is used up: sending", 3},
		"no repository": {http.StatusNotFound, `{"errors":[{"code":"NAME_UNKNOWN","message":"The repository with name 'me/cache' does not exist"}]}`, false, "404 Not Found: name_unknown: The repository with name 'me/cache' does not exist", 1},
		"for ever 503":  {http.StatusServiceUnavailable, "", false, "transient: no time is left for another try", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer()
			s := server.open(t)
			server.set(answer(test.status, test.body, writes))
			img, read := watch(imagetest.New(t, imagetest.Options{Layers: 3}))
			err := s.Save(t.Context(), key, img)
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, "saving "+key+" in oci://registry.example/me/cache: ")
			require.NotContains(t, err.Error(), "\n")
			require.Equal(t, test.readOnly, errors.Is(err, store.ErrReadOnly))
			require.Empty(t, read.read, "no layer is read in vain")
			requests, _ := server.take()
			if test.requests > 0 {
				require.Equal(t, test.requests, count(requests, "POST ")+count(requests, "PATCH ")+count(requests, "PUT "))
			}
		})
	}
}

// TestRefusedAtTheEnd is a registry that takes layers and no manifests: nothing becomes visible.
func TestRefusedAtTheEnd(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := server.open(t)
	server.set(answer(http.StatusForbidden, "", func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/")
	}))
	err := s.Save(t.Context(), key, imagetest.New(t, imagetest.Options{}))
	require.ErrorIs(t, err, store.ErrReadOnly)
	_, err = s.Stat(t.Context(), key)
	require.ErrorIs(t, err, store.ErrNotFound)
}

// TestARegistryThatTakesNoDockerManifests still takes the entry, which is none.
func TestARegistryThatTakesNoDockerManifests(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := server.open(t)
	server.set(answer(http.StatusUnsupportedMediaType, "", func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.HasPrefix(r.Header.Get("Content-Type"), "application/vnd.docker.")
	}))
	img := remade(t, dockerTypes)
	require.NoError(t, s.Save(t.Context(), key, img))
	got, err := s.Open(t.Context(), key)
	require.NoError(t, err)
	requireSame(t, img, got)
}

// TestTroubleThatPasses: saving is on the schedule of pulls.
func TestTroubleThatPasses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault func(w http.ResponseWriter, r *http.Request)
		after time.Duration // at least
	}{
		"503":             {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, 2500 * time.Millisecond},
		"429 with a time": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "70"); w.WriteHeader(429) }, 70 * time.Second},
		"403":             {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, 2500 * time.Millisecond},
		"broken off": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = r.Body.Read(make([]byte, 1))
			panic(http.ErrAbortHandler)
		}, 2500 * time.Millisecond},
		"takes no more": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = r.Body.Read(make([]byte, 10))
			<-r.Context().Done()
		}, 30 * time.Second},
		"does not answer": {func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() }, 2 * time.Minute},
	} {
		for _, method := range []string{http.MethodPatch, http.MethodPut} {
			if name == "takes no more" && method == http.MethodPut {
				continue // that of a blob has no body
			}
			t.Run(name+" to "+method, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					server := newServer()
					s := server.open(t, func(o *Options) { o.Registry.Policy = retry.Policy{} })
					var failures atomic.Int32
					server.set(func(w http.ResponseWriter, r *http.Request) bool {
						if r.Method != method || failures.Add(1) > 1 {
							return false
						}
						test.fault(w, r)
						return true
					})
					start := time.Now()
					require.NoError(t, s.Save(t.Context(), key, imagetest.New(t, imagetest.Options{Layers: 2, LayerSize: 100_000})))
					require.GreaterOrEqual(t, time.Since(start), test.after)
					require.Less(t, time.Since(start), test.after+time.Minute)
				})
			})
		}
	}
}

// TestASlowSourceIsNoStall: a layer that comes slowly from where it is pulled is sent as slowly.
func TestASlowSourceIsNoStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		s := server.open(t, func(o *Options) { o.Registry.Policy = retry.Policy{} })
		img := imagetest.New(t, imagetest.Options{}).Via(func(s image.Source) image.Source { return slow{s} })
		require.NoError(t, s.Save(t.Context(), key, img))
		requests, _ := server.take()
		require.Equal(t, 2, count(requests, "PATCH "), "config and layer, once each")
	})
}

type slow struct{ image.Source }

func (s slow) Blob(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	rc, err := s.Source.Blob(ctx, d)
	return slowBlob{rc}, err
}

type slowBlob struct{ io.ReadCloser }

func (b slowBlob) Read(p []byte) (int, error) {
	timer := time.NewTimer(5 * time.Minute)
	<-timer.C
	return b.ReadCloser.Read(p)
}

// TestASourceThatFails: what can't be read is not tried again here, and is no refusal of the store's.
func TestASourceThatFails(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := server.open(t)
	p := imagetest.Parts(t, imagetest.Options{Layers: 2})
	img, err := image.New(p)
	require.NoError(t, err)
	layer := img.Layers()[1].Descriptor.Digest
	blobs := p.Source.(imagetest.Blobs)
	blobs[layer] = blobs[layer][:100]
	img, read := watch(img)
	err = s.Save(t.Context(), key, img)
	require.ErrorIs(t, err, image.ErrRead)
	require.ErrorIs(t, err, image.ErrVerify)
	require.NotErrorIs(t, err, store.ErrReadOnly)
	require.LessOrEqual(t, len(read.read), 2, "each layer is read once")
	_, err = s.Stat(t.Context(), key)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestAnInterruptedSaveLeavesNothingVisible(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := server.open(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	var uploads atomic.Int32
	server.set(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch && uploads.Add(1) == 2 {
			cancel(stop)
		}
		return false
	})
	err := s.Save(ctx, key, imagetest.New(t, imagetest.Options{Layers: 4}))
	require.ErrorIs(t, err, stop)
	_, err = s.Stat(t.Context(), key)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.NoError(t, s.Save(t.Context(), key, imagetest.New(t, imagetest.Options{Layers: 4})), "the next one saves")
}
