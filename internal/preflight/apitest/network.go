package apitest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Network is a network in memory with one server on it, which has the faults that a handler can't play. It works in fake
// time.
type Network struct {
	server *Server
	conns  chan net.Conn
	closed chan struct{}
}

var _ net.Listener = (*Network)(nil)

// Network puts the server on a network of its own.
func (s *Server) Network() *Network {
	return &Network{server: s, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects to the server, whatever the address.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	refuse := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: addr(address), Err: err}
	}
	switch n.server.fault() {
	case Refused:
		return refuse(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	case Reset:
		return refuse(os.NewSyscallError("read", syscall.ECONNRESET))
	case Hang:
		<-ctx.Done()
		return refuse(context.Cause(ctx))
	}
	here, there := newPipe()
	select {
	case n.conns <- there:
		return here, nil
	case <-n.closed:
		return refuse(net.ErrClosed)
	case <-ctx.Done():
		return refuse(context.Cause(ctx))
	}
}

// Accept implements net.Listener.
func (n *Network) Accept() (net.Conn, error) {
	select {
	case conn := <-n.conns:
		return conn, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It is called once.
func (n *Network) Close() error {
	close(n.closed)
	return nil
}

// Addr implements net.Listener.
func (n *Network) Addr() net.Addr { return addr("memory:443") }

type addr string

func (addr) Network() string  { return "memory" }
func (a addr) String() string { return string(a) }

// Authority makes certificates for a server and its clients.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes an authority.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	template := template("authority")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	return &Authority{certificate, key}, err
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), // fake time begins in 2000
		DNSNames: []string{"api.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// Issue makes a certificate and its key, in PEM.
func (a *Authority) Issue(name string) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template(name), a.certificate, private.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("making a certificate: %w", err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("writing a key: %w", err)
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", pkcs8), nil
}

// PEM is the authority's own certificate.
func (a *Authority) PEM() []byte { return encode("CERTIFICATE", a.certificate.Raw) }

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Serve serves the API on a listener, over TLS with a certificate of a, until stop is called, which waits for the end of
// it. Client certificates of a are taken.
func (s *Server) Serve(listener net.Listener, a *Authority) (stop func() error, err error) {
	certificate, key, err := a.Issue("api.example")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("reading the server's certificate: %w", err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(a.certificate)
	server := &http.Server{
		Handler: s, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.VerifyClientCertIfGiven, SessionTicketsDisabled: true,
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	return func() error {
		err := server.Close()
		if serving := <-ended; !errors.Is(serving, http.ErrServerClosed) {
			err = errors.Join(err, serving)
		}
		return err
	}, nil
}

// ServiceAccount writes a pod's credentials to dir: token, certificate of the API, namespace.
func (a *Authority) ServiceAccount(dir, token, namespace string) error {
	var errs []error
	for name, data := range map[string]string{"token": token, "ca.crt": string(a.PEM()), "namespace": namespace} {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
	}
	return errors.Join(errs...)
}
