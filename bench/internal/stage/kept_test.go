//go:build linux

package stage

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// shelf is a store of blobs that counts what it is asked for.
type shelf struct {
	blobs map[string]string
	asked atomic.Int32
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.asked.Add(1)
	name := req.URL.Path[strings.LastIndexByte(req.URL.Path, '/')+1:]
	if req.Method == http.MethodPut {
		data, _ := io.ReadAll(req.Body)
		s.blobs[name] = string(data)
		w.WriteHeader(http.StatusCreated)
		return
	}
	data, ok := s.blobs[name]
	if !ok {
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Last-Modified", "Mon, 30 Nov 2026 10:00:00 GMT")
	w.Header().Set("ETag", `"1"`)
	w.Header().Set("x-ms-blob-type", "BlockBlob")
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = io.WriteString(w, data)
}

// keeping is a line that keeps the blobs of a store.
func keeping(t *testing.T) (*shelf, *kept, func(method, name, body string, header ...string) *http.Response) {
	store := &shelf{blobs: map[string]string{}}
	server := httptest.NewServer(store)
	t.Cleanup(server.Close)
	k := &kept{store: store, url: func(name string) (string, error) { return server.URL + "/account/cache/" + name, nil }}
	return store, k, func(method, name, body string, header ...string) *http.Response {
		req := httptest.NewRequest(method, "/cache/"+name, strings.NewReader(body))
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		k.ServeHTTP(w, req)
		return w.Result()
	}
}

func requireBody(t *testing.T, resp *http.Response, status int, want string) {
	t.Helper()
	require.Equal(t, status, resp.StatusCode)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, want, string(body))
}

func TestBlobsThatAreKeptCostTheStoreNothing(t *testing.T) {
	t.Parallel()
	store, k, ask := keeping(t)
	ask(http.MethodPut, "one", "0123456789")
	requireBody(t, ask(http.MethodGet, "one", ""), http.StatusOK, "0123456789")
	require.EqualValues(t, 2, store.asked.Load(), "it is not kept yet")
	require.NoError(t, k.keep(t.Context()))
	require.NoError(t, k.keep(t.Context()), "each is read once")
	require.EqualValues(t, 3, store.asked.Load())

	requireBody(t, ask(http.MethodGet, "one", ""), http.StatusOK, "0123456789")
	for _, name := range []string{"Range", "x-ms-range"} {
		resp := ask(http.MethodGet, "one", "", name, "bytes=2-4")
		requireBody(t, resp, http.StatusPartialContent, "234")
		require.Equal(t, "bytes 2-4/10", resp.Header.Get("Content-Range"))
		require.Equal(t, `"1"`, resp.Header.Get("ETag"))
		require.Equal(t, "BlockBlob", resp.Header.Get("x-ms-blob-type"), "its header is the store's")
		require.Equal(t, "Mon, 30 Nov 2026 10:00:00 GMT", resp.Header.Get("Last-Modified"))
	}
	requireBody(t, ask(http.MethodGet, "one", "", "Range", "bytes=20-"), http.StatusRequestedRangeNotSatisfiable, "invalid range: failed to overlap\n")
	resp := ask(http.MethodHead, "one", "")
	requireBody(t, resp, http.StatusOK, "")
	require.EqualValues(t, 10, resp.ContentLength)
	require.EqualValues(t, 3, store.asked.Load())
}

// What is written anew, and what is asked for besides its bytes, is the store's to answer.
func TestBlobsThatAreWrittenAreTheStores(t *testing.T) {
	t.Parallel()
	store, k, ask := keeping(t)
	ask(http.MethodPut, "one", "old")
	require.NoError(t, k.keep(t.Context()))
	ask(http.MethodPut, "one", "new")
	requireBody(t, ask(http.MethodGet, "one", ""), http.StatusOK, "new")
	before := store.asked.Load()
	require.NoError(t, k.keep(t.Context()))
	requireBody(t, ask(http.MethodGet, "one", ""), http.StatusOK, "new")
	require.Equal(t, before+1, store.asked.Load())
	requireBody(t, ask(http.MethodGet, "one?comp=blocklist", ""), http.StatusOK, "new")
	require.Equal(t, before+2, store.asked.Load())
	requireBody(t, ask(http.MethodGet, "none", ""), http.StatusNotFound, "404 page not found\n")
}

func TestBlobsThatWereNeverPublishedAreNotKept(t *testing.T) {
	t.Parallel()
	store, k, ask := keeping(t)
	ask(http.MethodPut, "one?comp=block", "part")
	delete(store.blobs, "one")
	require.NoError(t, k.keep(t.Context()))
	requireBody(t, ask(http.MethodGet, "one", ""), http.StatusNotFound, "404 page not found\n")
}
