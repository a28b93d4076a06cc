// Package cache owns the end-to-end tests of the Actions cache: our store and the real @actions/cache against one
// service, with an Azurite as the blob store, all of them on loopback. It needs Node, npm, tar and zstd, and installs
// what package.json asks for, once, in the user's cache folder.
package cache

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cachetest"
	"github.com/pullonce/pullonce/internal/store/actions"
)

// What the tests read from the environment.
const (
	envGate  = "PULLONCE_E2E"         // "1" runs them; what is missing then is a failure
	envChild = "PULLONCE_CACHE_CHILD" // set by the tests for processes whose memory they look at
)

func TestMain(m *testing.M) {
	if job := os.Getenv(envChild); job != "" {
		if err := runChild(context.Background(), job, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// gate skips the test unless the suite was asked for. There is no other skip in this package.
func gate(t *testing.T) {
	t.Helper()
	if os.Getenv(envGate) != "1" {
		t.Skip("needs Node, npm and zstd: run it with .ci/run, or PULLONCE_E2E=1 go test ./e2e/cache/")
	}
}

// modules installs the npm packages.
func modules(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	here, err := filepath.Abs(".")
	require.NoError(t, err)
	dir, err := cachetest.InstallModules(t.Context(), here, filepath.Join(cache, "pullonce-ci"))
	require.NoError(t, err)
	return dir
}

// world is one cache service, its blob store, and the real client.
type world struct {
	*cachetest.Server
	modules string
}

// newWorld starts a service with an Azurite. With azure, URLs are those of Azure's own hosts.
func newWorld(t *testing.T, azure bool) *world {
	t.Helper()
	w := &world{modules: modules(t)}
	azurite, err := cachetest.StartAzurite(t.Context(), cachetest.AzuriteOptions{
		Modules: filepath.Join(w.modules, "node_modules"), Dir: t.TempDir(), Azure: azure,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, azurite.Close()) })
	w.Server, err = cachetest.Start(cachetest.New(cachetest.Options{Blobs: azurite}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Server.Close()) })
	return w
}

// newStore is our store on a service.
func newStore(resultsURL, spool string) (*actions.Store, error) {
	return actions.New(actions.Options{
		ResultsURL: resultsURL, Token: cachetest.Token, SpoolDir: spool, Transport: &http.Transport{DialContext: cachetest.Dialer},
	})
}

func (w *world) store(t *testing.T) *actions.Store {
	t.Helper()
	s, err := newStore(w.URL, t.TempDir())
	require.NoError(t, err)
	return s
}
