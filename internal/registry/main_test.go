package registry_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
)

// envPull makes the test binary a program that pulls the image it names, for what a process reads only once.
const envPull = "PULLONCE_TEST_PULL"

func TestMain(m *testing.M) {
	ref := os.Getenv(envPull)
	if ref == "" {
		os.Exit(m.Run())
	}
	c := registry.New(registry.Options{Policy: quick})
	if _, err := c.Pull(context.Background(), reference.MustParse(ref), amd64); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func TestSSLCertFileIsHonoured(t *testing.T) {
	t.Parallel()
	r := regtest.New(regtest.Options{})
	r.Add("a:1", regtest.RandomImage(1, 1, 1000))
	s := start(t, r, regtest.Listen{TLS: true})
	_, port, err := net.SplitHostPort(s.Host)
	require.NoError(t, err)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	require.NoError(t, os.WriteFile(roots, s.CA, 0o600))
	pull := func(env ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(env, envPull+"=localhost:"+port+"/a:1", "SSL_CERT_DIR=/nonexistent")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := pull("SSL_CERT_FILE=" + roots)
	require.NoError(t, err, out)
	out, err = pull("SSL_CERT_FILE=/nonexistent")
	require.Error(t, err)
	require.Contains(t, out, "certificate")
}
