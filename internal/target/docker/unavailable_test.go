package docker

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/target"
)

func TestUnavailable(t *testing.T) {
	t.Parallel()
	serve := func(handler http.HandlerFunc) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			server := httptest.NewUnstartedServer(handler)
			require.NoError(t, server.Listener.Close())
			server.Listener = listen(t, path)
			server.Start()
			t.Cleanup(server.Close)
		}
	}
	tests := map[string]struct {
		given func(t *testing.T, path string)
		want  string
	}{
		"nothing there": {func(*testing.T, string) {}, "no Docker daemon: PATH does not exist: start Docker, or set DOCKER_HOST to where it listens"},
		"a folder": {func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) },
			"PATH is a folder, not a socket: it was mounted before there was a socket; start Docker first, remove the folder, mount again"},
		"a file": {func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, nil, 0o600)) },
			"PATH is no socket (-rw-------): set DOCKER_HOST to where Docker listens"},
		"nobody listens": {func(t *testing.T, path string) {
			listener := listen(t, path).(*net.UnixListener)
			listener.SetUnlinkOnClose(false)
			require.NoError(t, listener.Close())
		}, "nobody listens at PATH: the Docker daemon has stopped; start it"},
		"no HTTP": {func(t *testing.T, path string) {
			listener := listen(t, path)
			go greet(listener)
		}, `what answers at unix://PATH is no Docker engine that can be used (malformed HTTP response "SSH-2.0-hello"): set DOCKER_HOST to the engine's socket`},
		"HTTP, but no engine": {serve(func(http.ResponseWriter, *http.Request) {}),
			"what answers at unix://PATH is no Docker engine that can be used (it names no API version): set DOCKER_HOST to the engine's socket"},
		"an engine of long ago": {serve(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.24") }),
			"what answers at unix://PATH is no Docker engine that can be used (API version 1.24 is not supported by this client: " +
				"the minimum supported API version is 1.40): set DOCKER_HOST to the engine's socket"},
		"an engine that refuses": {serve(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Api-Version", "1.44")
			if !strings.HasSuffix(r.URL.Path, "/_ping") {
				http.Error(w, "not\nfor \x1b[31myou", http.StatusForbidden)
			}
		}), "what answers at unix://PATH is no Docker engine that can be used (not for \uFFFD[31myou): set DOCKER_HOST to the engine's socket"},
		"no answer": {serve(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
			"Docker at unix://PATH did not answer within 50ms: see the daemon's log"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "pullonce")
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
			path := filepath.Join(dir, "docker.sock")
			test.given(t, path)
			timeout := time.Minute
			if name == "no answer" {
				timeout = 50 * time.Millisecond
			}
			d, err := New(Options{Timeout: timeout, Getenv: func(key string) string {
				return map[string]string{"DOCKER_HOST": "unix://" + path}[key]
			}})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, d.Close()) })

			want := "target unavailable: " + strings.ReplaceAll(test.want, "PATH", path) + " (address from DOCKER_HOST)"
			_, err = d.Platform(t.Context())
			require.ErrorIs(t, err, target.ErrUnavailable)
			require.EqualError(t, err, want)
			_, err = d.Load(t.Context(), imagetest.New(t, imagetest.Options{}))
			require.ErrorIs(t, err, target.ErrUnavailable)
			require.EqualError(t, err, want)
		})
	}
}

func listen(t *testing.T, path string) net.Listener {
	t.Helper()
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// greet answers requests in another protocol, until listener is closed.
func greet(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		_, _ = fmt.Fprint(conn, "SSH-2.0-hello\r\n")
		_ = conn.Close()
	}
}

func TestCancelledQuestionIsNoVerdict(t *testing.T) {
	t.Parallel()
	d, err := New(Options{Host: "unix:///none"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = d.Platform(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, target.ErrUnavailable)
}
