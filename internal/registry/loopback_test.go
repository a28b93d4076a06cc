package registry_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/retry"
)

// start puts a registry on a loopback listener.
func start(t *testing.T, r *regtest.Registry, o regtest.Listen) *regtest.Server {
	t.Helper()
	s, err := r.Start(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// real is a Client over real sockets.
func real(t *testing.T, o registry.Options) *registry.Client {
	t.Helper()
	return overTransport(t, registry.NewTransport(), o)
}

func TestLoopbackIsSpokenToWithoutTLS(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"127.0.0.1:0", "127.0.0.5:0", "[::1]:0"} {
		t.Run(addr, func(t *testing.T) {
			t.Parallel()
			r := regtest.New(regtest.Options{Auth: &regtest.Auth{Public: []string{"*"}}})
			r.Add("a:1", regtest.RandomImage(1, 1, 1000))
			s := start(t, r, regtest.Listen{Addr: addr})
			pull, err := real(t, registry.Options{Policy: quick}).Pull(t.Context(), reference.MustParse(s.Host+"/a:1"), amd64)
			require.NoError(t, err)
			readLayers(t, pull.Image)
		})
	}
}

func TestLocalhostIsTriedWithTLSFirst(t *testing.T) {
	t.Parallel()
	for name, listen := range map[string]regtest.Listen{"with": {TLS: true}, "without": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := regtest.New(regtest.Options{})
			r.Add("a:1", regtest.RandomImage(1, 1, 1000))
			s := start(t, r, listen)
			_, port, err := net.SplitHostPort(s.Host)
			require.NoError(t, err)
			transport := registry.NewTransport()
			transport.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
			transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(s.CA)
			pull, err := overTransport(t, transport, registry.Options{Policy: quick}).Pull(t.Context(), reference.MustParse("localhost:"+port+"/a:1"), amd64)
			require.NoError(t, err)
			readLayers(t, pull.Image)
			require.Len(t, r.Log(), 3)
		})
	}
}

func TestUnknownAuthorityIsPermanent(t *testing.T) {
	t.Parallel()
	s := start(t, regtest.New(regtest.Options{}), regtest.Listen{TLS: true})
	_, port, err := net.SplitHostPort(s.Host)
	require.NoError(t, err)
	began := time.Now()
	_, err = real(t, registry.Options{}).Pull(t.Context(), reference.MustParse("localhost:"+port+"/a:1"), amd64)
	require.ErrorContains(t, err, "certificate")
	class, _ := retry.ClassOf(err)
	require.Equal(t, retry.Permanent, class)
	require.Less(t, time.Since(began), time.Second)
}

func TestRequestsGoThroughTheProxy(t *testing.T) {
	t.Parallel()
	r := regtest.New(regtest.Options{})
	r.Add("a:1", regtest.RandomImage(1, 1, 1000))
	proxy := httptest.NewServer(r) // a proxy gets whole URLs, and the registry looks at their paths alone
	t.Cleanup(proxy.Close)
	target, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	transport := registry.NewTransport()
	transport.Proxy = http.ProxyURL(target)
	o := registry.Options{Policy: quick, Insecure: func(string) bool { return true }}
	_, err = overTransport(t, transport, o).Pull(t.Context(), reference.MustParse("127.0.0.1:1/a:1"), amd64)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:1", r.Log()[0].Host)
}

// busyMachine is what a machine with more to do than this test may add to a time, where the time is short.
const busyMachine = time.Second

// refused is a loopback address that nobody listens on.
func refused(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func TestTimeoutHoldsInRealTime(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	for name, fault := range map[string]regtest.Fault{
		"hang": regtest.Hang(), "stall": regtest.Stall(10), "reset": regtest.Drop(), "status": regtest.Status(503), "page": regtest.HTML(),
		"refused": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := sharing()
			host := refused(t)
			if fault != nil {
				r.Always(regtest.Match{}, fault)
				host = start(t, r, regtest.Listen{}).Host
			}
			began := time.Now()
			_, err := real(t, registry.Options{Policy: retry.Policy{Timeout: timeout, First: 100 * time.Millisecond}}).Pull(t.Context(), reference.MustParse(host+"/a:1"), amd64)
			took := time.Since(began)
			class, _ := retry.ClassOf(err)
			require.Equal(t, retry.Transient, class, "%v", err)
			require.LessOrEqual(t, took, timeout+timeout/20+busyMachine)
			require.Greater(t, took, timeout*3/4)
		})
	}
}

// resets breaks n connections to a layer at random offsets.
func resets(t *testing.T, r *regtest.Registry, size int64, n int) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed: %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	list := make([]regtest.Fault, n)
	for i := range list {
		list[i] = regtest.Reset(random.Int64N(size / int64(n)))
	}
	r.Script(regtest.Match{Kind: regtest.KindBlob}, list...)
}

// counting makes a transport that counts the bytes that arrive over its connections.
func counting(n *atomic.Int64) *http.Transport {
	transport := registry.NewTransport()
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return countingConn{conn, n}, err
	}
	return transport
}

type countingConn struct {
	net.Conn
	n *atomic.Int64
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func TestResetsCostNextToNothing(t *testing.T) {
	size := int64(64 << 20)
	if os.Getenv("PULLONCE_E2E") == "1" {
		size = 1 << 30
	}
	for name, spooled := range map[string]bool{"streamed": false, "spooled": true} {
		t.Run(name, func(t *testing.T) {
			r := regtest.New(regtest.Options{})
			img := regtest.RandomImage(5, 1, size)
			r.Add("a:1", img)
			s := start(t, r, regtest.Listen{})
			resets(t, r, size, 20)
			o := registry.Options{Policy: retry.Policy{First: 10 * time.Millisecond}}
			if spooled {
				o.SpoolDir = t.TempDir()
			}
			var arrived atomic.Int64
			pull, err := overTransport(t, counting(&arrived), o).Pull(t.Context(), reference.MustParse(s.Host+"/a:1"), amd64)
			require.NoError(t, err)
			r.ResetLog()
			before := heap()
			require.NoError(t, readLayer(t, pull.Image, 0))

			log := r.Log().Of(regtest.KindBlob)
			require.Equal(t, 21, len(log))
			// The log counts what the server has written; each reset throws away what of that was still on its way.
			require.LessOrEqual(t, float64(arrived.Load()), 1.05*float64(img.Layers[0].Size))
			require.Equal(t, 21, pull.Attempts())
			require.Less(t, heap()-before, int64(32<<20), "bytes of heap more than before")
		})
	}
}

// heap is the memory that the heap takes from the system, in bytes.
func heap() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(sample)
	var total uint64
	for _, s := range sample {
		total += s.Value.Uint64()
	}
	return int64(total)
}

// TestNoGoroutineIsLeft runs alone, as it looks at all goroutines of the process.
func TestNoGoroutineIsLeft(t *testing.T) {
	for name, fault := range map[string]regtest.Fault{
		"none": regtest.Pass, "reset": regtest.Reset(100), "hang": regtest.Hang(), "stall": regtest.Stall(layerSize / 2), "flip": regtest.Flip(100),
	} {
		r := regtest.New(regtest.Options{})
		r.Add("a:1", regtest.RandomImage(1, 2, layerSize))
		s, err := r.Start(regtest.Listen{})
		require.NoError(t, err)
		r.Script(regtest.Match{Kind: regtest.KindBlob}, fault)
		c := registry.New(registry.Options{SpoolDir: t.TempDir(), Policy: retry.Policy{Timeout: 500 * time.Millisecond, First: time.Millisecond}})
		pull, err := c.Pull(t.Context(), reference.MustParse(s.Host+"/a:1"), amd64)
		require.NoError(t, err, name)
		_ = consume(t.Context(), pull.Image, 0) // it may fail: what it leaves behind is the point
		require.NoError(t, c.Close())
		require.NoError(t, s.Close())
	}
	busy := func() bool {
		return strings.Contains(stacks(), "net/http.(") || strings.Contains(stacks(), "internal/registry.(")
	}
	require.Eventually(t, func() bool { return !busy() }, 5*time.Second, 10*time.Millisecond, "%s", stacks())
}

func stacks() string {
	buf := make([]byte, 1<<20)
	return strings.TrimSpace(string(buf[:runtime.Stack(buf, true)]))
}
