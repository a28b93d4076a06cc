package link_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/bench/internal/link"
)

// echo answers with what it was sent.
func echo(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body) // a client that has gone is not told
	_, _ = w.Write(body)
}

func start(t *testing.T, o link.Options) (*link.Link, string) {
	t.Helper()
	l, err := link.Start(http.HandlerFunc(echo), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l, fmt.Sprintf("http://127.0.0.1:%d/", l.Port())
}

func post(t *testing.T, url string, body []byte) {
	t.Helper()
	resp, err := http.Post(url, "application/octet-stream", bytes.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, len(body), len(answer))
}

func TestTheLineCounts(t *testing.T) {
	t.Parallel()
	l, url := start(t, link.Options{})
	before := l.Counts()
	post(t, url, make([]byte, 100_000))
	post(t, url, make([]byte, 1))
	require.Equal(t, link.Counts{Requests: 2, Down: 100_001, Up: 100_001}, l.Counts().Sub(before))
}

// The line is as slow as it was told: 200 kB there and back at 1 MB/s, and a request's latency.
func TestTheLineIsSlow(t *testing.T) {
	t.Parallel()
	_, url := start(t, link.Options{Bandwidth: 1_000_000, Latency: 50 * time.Millisecond})
	began := time.Now()
	post(t, url, make([]byte, 200_000))
	require.GreaterOrEqual(t, time.Since(began), 430*time.Millisecond)
}
