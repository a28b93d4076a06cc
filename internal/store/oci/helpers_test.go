package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	pulls "github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/retry"
)

const (
	key        = "pullonce-v1-test-linux-amd64-0123456789abcdef"
	repository = "registry.example/me/cache"
)

// server is a registry in memory, without a network, with a log of what it was asked and a place for faults.
type server struct {
	handler http.Handler

	mu       sync.Mutex
	requests []string // "METHOD path below the repository"
	sent     int      // bytes of bodies
	fault    func(w http.ResponseWriter, r *http.Request) (handled bool)
}

func newServer() *server {
	return &server{handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+strings.TrimPrefix(r.URL.Path, "/v2/me/cache/"))
	fault := s.fault
	s.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	r.Body = &counted{r.Body, s}
	if d, ok := strings.CutPrefix(r.URL.Path, "/v2/me/cache/manifests/sha256:"); ok && r.Method == http.MethodDelete {
		s.untag("sha256:" + d)
	}
	s.handler.ServeHTTP(w, r)
}

// untag drops the tags of a manifest, as registries do that delete it.
func (s *server) untag(digest string) {
	ask := func(method, path string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		s.handler.ServeHTTP(answer, httptest.NewRequest(method, "/v2/me/cache/"+path, nil))
		return answer
	}
	var list struct{ Tags []string }
	_ = json.Unmarshal(ask(http.MethodGet, "tags/list").Body.Bytes(), &list)
	for _, tag := range list.Tags {
		if ask(http.MethodHead, "manifests/"+tag).Header().Get("Docker-Content-Digest") == digest {
			ask(http.MethodDelete, "manifests/"+tag)
		}
	}
}

type counted struct {
	io.ReadCloser
	server *server
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.sent += n
	return n, err
}

// set sets the fault from now on.
func (s *server) set(fault func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// take is what was asked, and how many bytes were sent, since the last time.
func (s *server) take() (requests []string, sent int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests, sent = s.requests, s.sent
	s.requests, s.sent = nil, 0
	return requests, sent
}

// count is how many of the requests begin so.
func count(requests []string, prefix string) int {
	return len(slices.DeleteFunc(slices.Clone(requests), func(r string) bool { return !strings.HasPrefix(r, prefix) }))
}

// open is a store on the server, on a schedule that is over soon.
func (s *server) open(t *testing.T, change ...func(*Options)) *Store {
	t.Helper()
	o := Options{Repository: repository, Registry: pulls.Options{
		Transport: regtest.Transport("192.0.2.1", map[string]http.Handler{"registry.example": s}),
		Policy:    retry.Policy{Timeout: time.Second, First: time.Millisecond, Max: 10 * time.Millisecond},
	}}
	for _, f := range change {
		f(&o)
	}
	opened, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	return opened
}

// answer is a fault that answers every request for which when holds.
func answer(status int, body string, when func(r *http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !when(r) {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}

// replace is a fault that serves other bytes in place of some manifest or blob.
func replace(d string, data []byte) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, d) {
			return false
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
		return true
	}
}

func writes(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// readable is a source that says which blobs were read.
type readable struct {
	image.Source
	mu   sync.Mutex
	read []string
}

// watch is img with its source watched.
func watch(img image.Image) (image.Image, *readable) {
	r := &readable{}
	return img.Via(func(s image.Source) image.Source { r.Source = s; return r }), r
}

func (r *readable) Blob(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = append(r.read, d.Digest.String())
	return r.Source.Blob(ctx, d)
}

// requireSame holds got to want, to the last byte.
func requireSame(t *testing.T, want, got image.Image) {
	t.Helper()
	require.NoError(t, got.Is(want.Reference(), want.Platform()))
	require.Equal(t, want.Root(), got.Root())
	require.Equal(t, want.Manifest(), got.Manifest())
	require.Equal(t, want.Config(), got.Config())
	require.Equal(t, want.Layers(), got.Layers())
	require.NoError(t, image.Verify(t.Context(), got))
}

// putForeign puts somebody else's image under a tag of the repository.
func putForeign(t *testing.T, s *Store, tag string) {
	t.Helper()
	img := imagetest.New(t, imagetest.Options{Layers: -1})
	require.NoError(t, s.Save(t.Context(), "other-"+tag, img))
	require.NoError(t, remote.Put(s.repository.Tag(tag), document{img.Manifest().MediaType, img.Manifest().Data}, s.options...))
	found, err := s.find(t.Context(), "other-"+tag)
	require.NoError(t, err)
	require.NoError(t, s.delete(t.Context(), found.digest()))
}
