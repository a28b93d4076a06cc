package docker_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/docker"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(newEngine(t, false).handler())
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	certs := certificates(t, server)
	env := map[string]string{
		"DOCKER_HOST":       strings.Replace(server.URL, "https", "tcp", 1),
		"DOCKER_CERT_PATH":  certs,
		"DOCKER_TLS_VERIFY": "1",
	}
	ask := func(env map[string]string) error {
		d, err := docker.New(docker.Options{Getenv: func(key string) string { return env[key] }})
		if err != nil {
			return err
		}
		defer func() { require.NoError(t, d.Close()) }()
		_, err = d.Platform(t.Context())
		return err
	}
	require.NoError(t, ask(env))

	err := ask(map[string]string{"DOCKER_HOST": env["DOCKER_HOST"]})
	require.ErrorIs(t, err, target.ErrUnavailable)
	require.ErrorContains(t, err, "and DOCKER_CERT_PATH where it wants TLS (address from DOCKER_HOST)")

	require.NoError(t, os.Remove(filepath.Join(certs, "ca.pem")))
	err = ask(env)
	require.ErrorIs(t, err, target.ErrUnavailable)
	require.ErrorContains(t, err, "setting up TLS: open "+certs+"/ca.pem: no such file or directory")

	delete(env, "DOCKER_TLS_VERIFY")
	require.NoError(t, ask(env), "nothing is verified, so that no CA is needed")
}

// certificates is a folder with the server's certificate as CA and a client certificate of its own.
func certificates(t *testing.T, server *httptest.Server) string {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{
		"ca.pem":   {Type: "CERTIFICATE", Bytes: server.Certificate().Raw},
		"cert.pem": {Type: "CERTIFICATE", Bytes: cert},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: private},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	return dir
}
