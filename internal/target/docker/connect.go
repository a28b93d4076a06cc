package docker

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"

	"github.com/moby/moby/client"
)

// client makes the Engine API client for e. It speaks the newest API version that both sides know, down to 1.40
// (Docker 19.03).
func (e endpoint) client() (*client.Client, error) {
	transport, scheme := &http.Transport{}, "http"
	if e.tls != nil {
		config, err := e.tls.config()
		if err != nil {
			return nil, fmt.Errorf("setting up TLS: %w", err)
		}
		transport.TLSClientConfig, scheme = config, "https"
	}
	return client.New(
		client.WithHTTPClient(&http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}),
		client.WithHost(e.String()),
		client.WithScheme(scheme),
		client.WithUserAgent("pullonce"),
	)
}

func (f tlsFiles) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: f.insecure}
	if f.ca != "" && !f.insecure {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", f.ca)
		}
	}
	if f.cert == "" && f.key == "" {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, err
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}
