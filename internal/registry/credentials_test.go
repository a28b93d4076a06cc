package registry_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/retry"
)

// dockerConfig writes a config.json with a credential for a host and returns its folder.
func dockerConfig(t *testing.T, host, user, password string) string {
	t.Helper()
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return writeConfig(t, fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, auth))
}

func writeConfig(t *testing.T, content string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(content), 0o600))
	return dir
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	const token, index = regtest.KindToken, regtest.KindManifest
	for name, tc := range map[string]struct {
		auth          regtest.Auth
		ref           string
		host          string // of the stored credential; "" is none
		password      string
		authenticated bool
		fails         string // part of the error
		kinds         []regtest.Kind
	}{
		"anonymous token": {
			auth: regtest.Auth{Public: []string{"*"}}, ref: "registry.example/app:1",
			kinds: kinds(index, token, index, regtest.KindConfig, regtest.KindBlob),
		},
		"private": {
			auth: regtest.Auth{}, ref: "registry.example/app:1", host: "registry.example", password: "right", authenticated: true,
			kinds: kinds(index, token, index, regtest.KindConfig, regtest.KindBlob),
		},
		"Docker Hub's account": {
			auth: regtest.Auth{}, ref: "app:1", host: "https://index.docker.io/v1/", password: "right", authenticated: true,
			kinds: kinds(index, token, index, regtest.KindConfig, regtest.KindBlob),
		},
		"a host stored as URL": {
			auth: regtest.Auth{}, ref: "registry.example/app:1", host: "https://registry.example/v2/", password: "right", authenticated: true,
			kinds: kinds(index, token, index, regtest.KindConfig, regtest.KindBlob),
		},
		"another host's is not used": {
			auth: regtest.Auth{Public: []string{"*"}}, ref: "registry.example/app:1", host: "other.example", password: "right",
			kinds: kinds(index, token, index, regtest.KindConfig, regtest.KindBlob),
		},
		"user and password": {
			auth: regtest.Auth{Basic: true}, ref: "registry.example/app:1", host: "registry.example", password: "right", authenticated: true,
			kinds: kinds(index, 2, regtest.KindConfig, regtest.KindBlob),
		},
		"stale, for a public image": {
			auth: regtest.Auth{Public: []string{"*"}}, ref: "registry.example/app:1", host: "registry.example", password: "stale",
			kinds: kinds(index, token, 2, index, regtest.KindConfig, regtest.KindBlob),
		},
		"stale, for a private image": {
			auth: regtest.Auth{}, ref: "registry.example/app:1", host: "registry.example", password: "stale",
			fails: "getting a token: 401 Unauthorized: unauthorized: authorization token has expired",
		},
		"none, for a private image": {
			auth: regtest.Auth{}, ref: "registry.example/app:1", fails: "401 Unauthorized",
		},
		"none, where user and password are wanted": {
			auth: regtest.Auth{Basic: true}, ref: "registry.example/app:1", fails: "asks for user and password, and none are stored",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.auth.User, tc.auth.Password = "me", "right"
			r := regtest.New(regtest.Options{Auth: &tc.auth})
			ref := reference.MustParse(tc.ref)
			r.Add(ref.Path()+":1", regtest.RandomImage(1, 1, 1000))
			o := registry.Options{Policy: quick}
			if tc.host != "" {
				o.ConfigDir = dockerConfig(t, tc.host, "me", tc.password)
			}
			pull, err := client(t, r, o).Pull(t.Context(), ref, amd64)
			if tc.fails != "" {
				require.ErrorContains(t, err, tc.fails)
				class, _ := retry.ClassOf(err)
				require.Equal(t, retry.Permanent, class, "after three tries")
				return
			}
			require.NoError(t, err)
			readLayers(t, pull.Image)
			require.Equal(t, tc.authenticated, pull.Authenticated)
			require.Equal(t, tc.kinds, requested(r))
			require.Equal(t, 1, pull.Attempts())
		})
	}
}

func TestUncertainAnswersAreMetWithFreshTokens(t *testing.T) {
	t.Parallel()
	r := regtest.New(regtest.Options{Auth: &regtest.Auth{Public: []string{"*"}}})
	r.Add("app:1", regtest.RandomImage(1, 1, 1000))
	c := client(t, r, registry.Options{Policy: quick})
	r.Script(regtest.Match{Kind: regtest.KindManifest}, regtest.Pass, regtest.Status(403), regtest.Status(403))

	pull, err := c.Pull(t.Context(), reference.MustParse("registry.example/app:1"), amd64)
	require.NoError(t, err)
	require.Equal(t, 3, pull.Attempts())
	require.Len(t, r.Log().Of(regtest.KindToken), 3)
	seen := map[string]bool{}
	for _, req := range r.Log().Of(regtest.KindManifest) {
		seen[req.Header.Get("Authorization")] = true
	}
	require.Len(t, seen, 4, "none, and three different tokens")
}

func TestCredentialsGoToTheRegistryAlone(t *testing.T) {
	t.Parallel()
	img := regtest.RandomImage(1, 2, 1000)
	cdn := regtest.New(regtest.Options{})
	cdn.Add("app:1", img)
	r := regtest.New(regtest.Options{Auth: &regtest.Auth{User: "me", Password: "right"}, CDN: "https://cdn.example"})
	r.Add("app:1", img)
	network := regtest.Transport("192.0.2.1", map[string]http.Handler{"registry.example": r, "cdn.example": cdn})
	c := overTransport(t, network, registry.Options{Policy: quick, ConfigDir: dockerConfig(t, "registry.example", "me", "right")})

	pull, err := c.Pull(t.Context(), reference.MustParse("registry.example/app:1"), amd64)
	require.NoError(t, err)
	readLayers(t, pull.Image)
	require.Len(t, cdn.Log(), 2)
	for _, req := range cdn.Log() {
		require.Empty(t, req.Header.Values("Authorization"))
		require.NotEmpty(t, req.Query, "the signed URL was followed")
	}
}

func TestRedirectMustNotLeaveTLS(t *testing.T) {
	t.Parallel()
	r := regtest.New(regtest.Options{CDN: "http://cdn.example"})
	r.Add("app:1", regtest.RandomImage(1, 1, 1000))
	pull, err := client(t, r, registry.Options{Policy: quick}).Pull(t.Context(), reference.MustParse("registry.example/app:1"), amd64)
	require.NoError(t, err)
	require.ErrorContains(t, readLayer(t, pull.Image, 0), "redirects to http://cdn.example, without TLS")
}

func TestPublicTellsWhoMayRead(t *testing.T) {
	t.Parallel()
	r := regtest.New(regtest.Options{Auth: &regtest.Auth{User: "me", Password: "right", Public: []string{"open"}}})
	r.Add("open:1", regtest.RandomImage(1, 1, 1000))
	r.Add("closed:1", regtest.RandomImage(2, 1, 1000))
	c := client(t, r, registry.Options{Policy: quick, ConfigDir: dockerConfig(t, "registry.example", "me", "right")})
	for name, want := range map[string]bool{"open": true, "closed": false} {
		public, err := c.Public(t.Context(), reference.MustParse("registry.example/"+name+":1"))
		require.NoError(t, err)
		require.Equal(t, want, public, name)
	}
	r.Always(regtest.Match{}, regtest.Status(503))
	_, err := c.Public(t.Context(), reference.MustParse("registry.example/open:1"))
	require.ErrorContains(t, err, "503")
}

// helperScript is a credential helper that knows one account, and notes which it was asked for.
const helperScript = `#!/bin/sh
read account
echo "$account" >> "$0.asked"
case "$account" in
registry.example) echo '{"Username":"me","Secret":"right"}' ;;
broken.example) echo "no key ring" ; exit 1 ;;
*) echo "credentials not found in native keychain" ; exit 1 ;;
esac
`

// TestHelpersAreAskedForTheHostAlone changes PATH, so it does not run beside others.
func TestHelpersAreAskedForTheHostAlone(t *testing.T) {
	bin := t.TempDir()
	helper := filepath.Join(bin, "docker-credential-test")
	require.NoError(t, os.WriteFile(helper, []byte(helperScript), 0o755))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	r := regtest.New(regtest.Options{Auth: &regtest.Auth{User: "me", Password: "right", Public: []string{"open"}}})
	r.Add("app:1", regtest.RandomImage(1, 1, 1000))
	r.Add("open:1", regtest.RandomImage(1, 1, 1000))
	config := writeConfig(t, `{"credHelpers":{"registry.example":"test","unknown.example":"test","broken.example":"test","other.example":"missing"}}`)
	var events []string
	c := client(t, r, registry.Options{Policy: quick, ConfigDir: config, Notify: func(e registry.Event) { events = append(events, e.String()) }})

	pull, err := c.Pull(t.Context(), reference.MustParse("registry.example/app:1"), amd64)
	require.NoError(t, err)
	require.True(t, pull.Authenticated)
	for _, host := range []string{"unknown.example", "broken.example", "plain.example"} {
		pull, err = c.Pull(t.Context(), reference.MustParse(host+"/open:1"), amd64)
		require.NoError(t, err)
		require.False(t, pull.Authenticated, host)
	}
	asked, err := os.ReadFile(helper + ".asked")
	require.NoError(t, err)
	require.Equal(t, "registry.example\nunknown.example\nbroken.example\n", string(asked))
	require.Len(t, events, 1)
	require.Contains(t, events[0], "broken.example the stored credential can't be read: running docker-credential-test: docker-credential-test get: exit code 1: no key ring")
}
