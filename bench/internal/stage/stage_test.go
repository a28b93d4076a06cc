//go:build linux

package stage

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/bench/internal/link"
)

func TestCountAccess(t *testing.T) {
	t.Parallel()
	log := `127.0.0.1 - - [30/Nov/2026:18:00:00 +0000] "GET /v2/ HTTP/1.1" 200 2 "" "crane"
127.0.0.1 - - [30/Nov/2026:18:00:00 +0000] "HEAD /v2/bench/m/manifests/1 HTTP/1.1" 200 1234 "" "docker"
127.0.0.1 - - [30/Nov/2026:18:00:00 +0000] "GET /v2/?fence=7 HTTP/1.1" 200 2 "" "Go-http-client/1.1"
not a line of it
`
	require.Equal(t, link.Counts{Requests: 2, Down: 1236}, countAccess([]byte(log)))
}

// The cache client sees a host of Azure's, and ours this machine; both come to the near end of the line.
func TestNearEnd(t *testing.T) {
	t.Parallel()
	const signed = "http://127.0.0.1:10000/devstoreaccount1/cache/entry-1?sig=a%2Bb&se=1"
	for base, want := range map[string]string{
		"http://127.0.0.1:7": "http://127.0.0.1:7/devstoreaccount1/cache/entry-1?sig=a%2Bb&se=1",
		"http://localhost:7": "http://devstoreaccount1.blob.core.windows.net:7/cache/entry-1?sig=a%2Bb&se=1",
	} {
		got, err := nearEnd(signed, base, 7)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestAProcessThatEndsIsTold(t *testing.T) {
	t.Parallel()
	p, err := launch(t.TempDir(), "sh", nil, "/bin/sh", "-c", "echo no room >&2; exit 1")
	require.NoError(t, err)
	err = p.await(t.Context(), "it listens", func() bool { return false })
	require.EqualError(t, err, "waiting until it listens: sh ended:\nno room")
	require.NoError(t, p.stop(), "that it has ended is fine")
}

func TestAProcessIsStopped(t *testing.T) {
	t.Parallel()
	p, err := launch(t.TempDir(), "sleep", nil, "/bin/sleep", "600")
	require.NoError(t, err)
	require.Positive(t, p.pid())
	require.NoError(t, p.stop())
}

func TestUnmountOfNothing(t *testing.T) {
	t.Parallel()
	require.NoError(t, Unmount(t.TempDir()))
}
