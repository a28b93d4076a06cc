//go:build unix

package registry_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/registry"
)

// helped asks the credential helper that script is. It changes PATH, so its tests do not run beside others.
func helped(ctx context.Context, t *testing.T, script string) (*authn.AuthConfig, error) {
	t.Helper()
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "docker-credential-test"), []byte("#!/bin/sh\n"+script), 0o755))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	keychain := registry.DockerKeychain(writeConfig(t, `{"credsStore":"test"}`)).(authn.ContextKeychain)
	host, err := name.NewRegistry("registry.example")
	require.NoError(t, err)
	who, err := keychain.ResolveContext(ctx, host)
	if err != nil {
		return nil, err
	}
	return who.Authorization()
}

func TestAHelperWhoseAgentKeepsTheOutputOpenIsNotWaitedFor(t *testing.T) {
	began := time.Now()
	got, err := helped(t.Context(), t, `sleep 60 &
echo '{"Username":"me","Secret":"right"}'`)
	require.NoError(t, err)
	require.Equal(t, &authn.AuthConfig{Username: "me", Password: "right"}, got)
	require.Less(t, time.Since(began), 30*time.Second)
}

func TestAHelperThatHangsEndsWithItsChildren(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := helped(ctx, t, "sleep 60\nsleep 60")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "running docker-credential-test: ")
	require.Less(t, time.Since(began), 30*time.Second)
}
