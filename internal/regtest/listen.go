package regtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"sync"
	"time"
)

// Listen says where a registry listens. The zero value is a free port of 127.0.0.1, without TLS.
type Listen struct {
	// Addr is a loopback address with a port, as in "127.0.0.2:0" or "[::1]:5000".
	Addr string
	// TLS serves https under a certificate that is its own authority: see Server.CA.
	TLS bool
}

// Server is a registry on a listener.
type Server struct {
	// Host is address and port, as an image reference has it: "127.0.0.1:40123".
	Host string
	// URL is Host with its scheme.
	URL string
	// CA is the PEM certificate that a client must trust; nil without TLS.
	CA []byte

	server *http.Server
	stop   context.CancelFunc
	served sync.WaitGroup
}

// Start serves the registry on a loopback listener until Close. Any other address is refused.
func (r *Registry) Start(o Listen) (*Server, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	listener, err := listenLoopback(o.Addr)
	if err != nil {
		return nil, err
	}
	s := &Server{Host: listener.Addr().String()}
	s.URL = "http://" + s.Host
	if o.TLS {
		config, ca, err := selfSigned(listener.Addr())
		if err != nil {
			_ = listener.Close() // nobody has seen it
			return nil, err
		}
		s.URL, s.CA = "https://"+s.Host, ca
		listener = tls.NewListener(listener, config)
	}
	s.serve(listener, r)
	return s, nil
}

func (s *Server) serve(listener net.Listener, r *Registry) {
	ctx, stop := context.WithCancel(context.Background()) // the life of the server, which Close ends
	s.stop = stop
	s.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			s.served.Add(1)
			defer s.served.Done()
			r.ServeHTTP(w, req)
		}),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // broken connections are its trade
	}
	s.served.Go(func() { _ = s.server.Serve(listener) }) // always http.ErrServerClosed in the end
}

// Close ends the server, also for requests that hang, and waits for its goroutines.
func (s *Server) Close() error {
	s.stop()
	err := s.server.Close()
	s.served.Wait()
	return err
}

// Dial makes a client's transport whose connections come from clientIP, an address of the loopback interface: on Linux
// any in 127.0.0.0/8. The caller closes its idle connections.
func Dial(clientIP string) *http.Transport {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(clientIP)}}
	return &http.Transport{DialContext: dialer.DialContext, DisableCompression: true}
}

func listenLoopback(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("listening on %q: %w", addr, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("listening on %q: no loopback address", addr)
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening on %q: %w", addr, err)
	}
	return listener, nil
}

// selfSigned makes a certificate for the address that is its own authority, good for a day.
func selfSigned(addr net.Addr) (*tls.Config, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return nil, nil, fmt.Errorf("making a certificate for %q: %w", addr, err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "regtest"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.ParseIP(host)}, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("making a certificate for %q: %w", addr, err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	return config, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
