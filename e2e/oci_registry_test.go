//go:build linux

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/store/oci"
)

// brand is a registry program that can be the store.
type brand struct{ name, program string }

// brands are those to test: Debian's and, if there is one, a current one.
func brands() []brand {
	all := []brand{{"debian", "docker-registry"}}
	if bin := os.Getenv(envEngine); bin != "" {
		all = append(all, brand{"current", filepath.Join(bin, "registry")})
	}
	return all
}

// forEachBrand runs a test with each registry program.
func forEachBrand(t *testing.T, test func(t *testing.T, b brand)) {
	t.Helper()
	gate(t)
	for _, b := range brands() {
		t.Run(b.name, func(t *testing.T) { test(t, b) })
	}
}

// depot is a registry that is the store.
type depot struct {
	*registry
	storage string
}

// start is an empty depot, until the test ends. It deletes what it is told to; more is added to its configuration.
func (b brand) start(t *testing.T, more ...string) depot {
	t.Helper()
	return b.serve(t, filepath.Join(tempDir(t), "storage"), more...)
}

// serve is start with what a storage folder has.
func (b brand) serve(t *testing.T, storage string, more ...string) depot {
	t.Helper()
	config := fmt.Sprintf("storage:\n  filesystem: {rootdirectory: %q}\n  delete: {enabled: true}\n", storage)
	r, err := launchRegistryAs(tempDir(t), b.program, config+strings.Join(more, ""))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.stop()) })
	return depot{r, storage}
}

// blob is the file that holds a blob.
func (d depot) blob(digest string) string {
	hex := strings.TrimPrefix(digest, "sha256:")
	return filepath.Join(d.storage, "docker/registry/v2/blobs/sha256", hex[:2], hex, "data")
}

// flags are the arguments that select a pin list and a repository at addr as the store.
func flags(t *testing.T, addr string, references ...string) []string {
	t.Helper()
	list := writeFile(t, tempDir(t), "pins.txt", strings.Join(references, "\n")+"\n")
	return []string{"--pins", list, "--store", "oci://" + addr + "/pullonce/cache"}
}

// openDepot is a store on a repository at addr, without the program around it.
func openDepot(t *testing.T, addr string) *oci.Store {
	t.Helper()
	s, err := oci.New(oci.Options{Repository: addr + "/pullonce/cache"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// front is a proxy before a registry: it counts, and it refuses what it is told to.
type front struct {
	addr string
	sent atomic.Int64 // bytes of bodies on their way to the registry

	mu     sync.Mutex
	refuse func(w http.ResponseWriter, r *http.Request) (refused bool)
	asked  []string // "METHOD path?query"
}

func startFront(t *testing.T, d depot) *front {
	t.Helper()
	f := &front{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: d.addr})
		r.Out.Host = r.In.Host // so that uploads go on through here
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.asked = append(f.asked, r.Method+" "+r.URL.RequestURI())
		refuse := f.refuse
		f.mu.Unlock()
		if refuse != nil && refuse(w, r) {
			return
		}
		r.Body = countedBody{r.Body, &f.sent}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	f.addr = strings.TrimPrefix(server.URL, "http://")
	return f
}

func (f *front) set(refuse func(http.ResponseWriter, *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = refuse
}

// take is what was asked since the last time.
func (f *front) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.asked
	f.asked = nil
	return asked
}

type countedBody struct {
	io.ReadCloser
	sent *atomic.Int64
}

func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.sent.Add(int64(n))
	return n, err
}

// refuseWith refuses what writes.
func refuseWith(status int, text string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			return false
		}
		http.Error(w, text, status)
		return true
	}
}
