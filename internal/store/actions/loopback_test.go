package actions_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cachetest"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/store/actions"
)

// Over sockets and the transport by default: a connection costs a handshake, so ranges must not need one each.
func TestRangesShareConnections(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(cachetest.New(cachetest.Options{}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	s, err := actions.New(actions.Options{ResultsURL: server.URL, Token: cachetest.Token, SpoolDir: t.TempDir()})
	require.NoError(t, err)
	img := imagetest.New(t, imagetest.Options{Layers: 12, LayerSize: 3 << 20})
	require.NoError(t, s.Save(t.Context(), key, img))
	got, err := s.Open(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, encoded(t, img), encoded(t, got))
	require.LessOrEqual(t, connections.Load(), int32(8), "24 ranges, 5 blocks and 5 calls, 7 at a time")
}
