package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/pullonce/pullonce/internal/preflight/kubeconfig"
)

// wire is one connection to the API, which takes no longer than ctx to be made. HTTP/2 would put all questions on one
// connection, which stays in use after a hang.
func (a *API) wire(ctx context.Context, c kubeconfig.Cluster, who *credential) (*http.Transport, error) {
	trust, err := trust(c, who)
	if err != nil {
		return nil, err
	}
	dial := a.opts.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	wire := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		OnProxyConnectResponse: proxyRefused,
		// A transport's own context does not end with the request: another one might want the connection.
		DialContext:            func(_ context.Context, network, addr string) (net.Conn, error) { return dial(ctx, network, addr) },
		TLSClientConfig:        trust,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableKeepAlives:      true,
	}
	if c.ProxyURL != "" {
		proxy, err := url.Parse(c.ProxyURL)
		if err != nil {
			return nil, errors.New("proxy-url is no URL")
		}
		wire.Proxy = http.ProxyURL(proxy)
	}
	return wire, nil
}

// trust says which servers are trusted, and has the client's certificate.
func trust(c kubeconfig.Cluster, who *credential) (*tls.Config, error) {
	trust := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: c.ServerName,
		InsecureSkipVerify: c.Insecure, //nolint:gosec // the configuration says so, as it may for kubectl
	}
	authority, err := c.Authority.Read()
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's authority: %w", err)
	}
	if authority != nil {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(authority) {
			return nil, errors.New("reading the cluster's authority: there is no certificate in it")
		}
	}
	if who.certificate != nil {
		trust.Certificates = []tls.Certificate{*who.certificate}
	}
	return trust, nil
}
