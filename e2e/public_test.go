//go:build linux

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/regtest"
)

// public stands in for all public registries, on loopback: programs reach it through their proxy, which takes every
// host's place under a certificate of its own authority. So pin lists and workflows keep the names that they have.
type public struct {
	*regtest.Registry
	proxy string // its URL
	ca    string // the file with the certificate of the authority
}

// startPublic serves the images of some references, each of which says its name when it runs.
func startPublic(t *testing.T, references ...string) *public {
	t.Helper()
	authority := newAuthority(t)
	p := &public{Registry: regtest.New(regtest.Options{}), ca: writeFile(t, tempDir(t), "ca.pem", authority.pem())}
	program, err := os.ReadFile(busybox)
	require.NoError(t, err)
	base := regtest.FileLayer(map[string]string{"bin/busybox": string(program)})
	for _, reference := range references {
		p.Add(repositoryOf(reference), talking(reference, base))
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		authority.intercept(w, req, p.Registry)
	}))
	t.Cleanup(proxy.Close)
	p.proxy = proxy.URL
	return p
}

// talking is an index of images for both architectures whose containers say what image they are of, and what they were
// told to do.
func talking(reference string, base regtest.Layer) *regtest.Index {
	var images []*regtest.Image
	for _, architecture := range []string{"amd64", "arm64"} {
		images = append(images, regtest.NewImage(regtest.Config{
			Platform: ocispec.Platform{OS: "linux", Architecture: architecture},
			Run:      ocispec.ImageConfig{Entrypoint: []string{busybox, "echo", "this is", reference}},
		}, base, regtest.FileLayer(map[string]string{"etc/image": reference + " " + architecture})))
	}
	return regtest.NewIndex(images...)
}

// environment is what makes programs go through the proxy.
func (p *public) environment() []string {
	return []string{"HTTPS_PROXY=" + p.proxy, "SSL_CERT_FILE=" + p.ca}
}

// requireEachPulledOnce holds the registry to have been asked once for each manifest and each blob, and for what a tag is
// once for each platform that was primed.
func (p *public) requireEachPulledOnce(t *testing.T, platforms int) {
	t.Helper()
	seen := map[string]int{}
	for _, r := range p.Log().Of(regtest.KindIndex, regtest.KindManifest, regtest.KindConfig, regtest.KindBlob) {
		require.Equal(t, http.StatusOK, r.Status, "%s %s %s", r.Method, r.Repository, r.Reference)
		if r.Method == http.MethodGet {
			seen[r.Repository+" "+r.Reference]++
		}
	}
	require.NotEmpty(t, seen)
	for what, times := range seen {
		most := 1
		if !strings.Contains(what, " sha256:") {
			most = platforms
		}
		require.Equal(t, most, times, what)
	}
}

// authority makes certificates for whatever name is asked for.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &authority{key: key, certificate: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pullonce e2e"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	der, err := x509.CreateCertificate(rand.Reader, a.certificate, a.certificate, key.Public(), key)
	require.NoError(t, err)
	a.certificate, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return a
}

func (a *authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}))
}

// forName is the certificate of a host.
func (a *authority) forName(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{hello.ServerName}, NotBefore: a.certificate.NotBefore,
		NotAfter: a.certificate.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, a.key.Public(), a.key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}, err
}

// intercept answers a CONNECT and then is the host that was asked for.
func (a *authority) intercept(w http.ResponseWriter, req *http.Request, host http.Handler) {
	if req.Method != http.MethodConnect {
		http.Error(w, "this proxy takes CONNECT", http.StatusMethodNotAllowed)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return // the client has gone
	}
	serveConn(tls.Server(conn, &tls.Config{GetCertificate: a.forName}), host)
}

// serveConn serves one connection until its client closes it.
func serveConn(conn net.Conn, handler http.Handler) {
	l := &oneConn{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conns <- conn
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				l.once()
			}
		},
	}
	_ = server.Serve(l) // ends with the connection
}

// oneConn is a listener with one connection.
type oneConn struct {
	conns  chan net.Conn
	closed chan struct{}
	closer sync.Once
}

func (l *oneConn) once() { l.closer.Do(func() { close(l.closed) }) }

// Accept implements net.Listener.
func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *oneConn) Close() error {
	l.once()
	return nil
}

// Addr implements net.Listener.
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// repositoryOf is a reference as its registry knows it: without the host, and with the "library" of Docker Hub.
func repositoryOf(reference string) string {
	host, path, ok := strings.Cut(reference, "/")
	switch {
	case !ok:
		return "library/" + reference
	case strings.ContainsAny(host, ".:"):
		return path
	default:
		return reference
	}
}
