package oci

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/store"
)

// turnstile lets in who has a token, as the distribution project's token specification has it. Its users are named for
// what they may do; everybody's password is "right".
func turnstile(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path == "/token" {
		handOut(w, r)
		return true
	}
	may, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer token-to-")
	if may == "write" || may == "read" && !writes(r) {
		return false
	}
	action := "pull"
	if writes(r) {
		action = "pull,push"
	}
	w.Header().Set("Www-Authenticate", fmt.Sprintf(`Bearer realm="https://registry.example/token",service="registry.example",scope="repository:me/cache:%s"`, action))
	return answer(http.StatusUnauthorized, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, func(*http.Request) bool { return true })(w, r)
}

// handOut gives a token for what the user may do, whatever more was asked for.
func handOut(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	if user != "read" && user != "write" || password != "right" {
		answer(http.StatusUnauthorized, `{"details":"incorrect username or password"}`, func(*http.Request) bool { return true })(w, r)
		return
	}
	fmt.Fprintf(w, `{"token":"token-to-%s"}`, user)
}

// signIn is a store's option to have one credential, whatever it is for, and to collect what is told to be secret.
func signIn(user, password string, secret func(string)) func(*Options) {
	return func(o *Options) {
		o.Registry.Keychain = keychain{authn.FromConfig(authn.AuthConfig{Username: user, Password: password})}
		o.Registry.Secret = secret
	}
}

type keychain struct{ authn.Authenticator }

func (k keychain) Resolve(r authn.Resource) (authn.Authenticator, error) {
	if r.RegistryStr() != "registry.example" {
		return authn.Anonymous, nil
	}
	return k.Authenticator, nil
}

func TestTokens(t *testing.T) {
	t.Parallel()
	server := newServer()
	server.set(turnstile)
	var mu sync.Mutex
	secrets := map[string]bool{}
	collect := func(secret string) { mu.Lock(); defer mu.Unlock(); secrets[secret] = true }
	img := imagetest.New(t, imagetest.Options{Layers: 3})

	s := server.open(t, signIn("write", "right", collect))
	require.NoError(t, s.Save(t.Context(), key, img))
	for _, secret := range []string{"right", "token-to-write"} {
		require.True(t, secrets[secret], "%q is told to be masked", secret)
	}
	server.take()
	_, err := s.Stat(t.Context(), key)
	require.NoError(t, err)
	requests, _ := server.take()
	require.Len(t, requests, 1, "the token is used again")

	reader := server.open(t, signIn("read", "right", collect))
	got, err := reader.Open(t.Context(), key)
	require.NoError(t, err)
	requireSame(t, img, got)
	require.NoError(t, reader.Save(t.Context(), key, img), "what is there is there")
	watched, read := watch(imagetest.New(t, imagetest.Options{Seed: 5}))
	err = reader.Save(t.Context(), store.Generation(key, 1), watched)
	require.ErrorIs(t, err, store.ErrReadOnly)
	require.ErrorContains(t, err, "401 Unauthorized: unauthorized: authentication required")
	require.Empty(t, read.read)
	_, err = reader.Prune(t.Context(), store.PruneOptions{Keep: func(string) bool { return false }})
	require.ErrorContains(t, err, "deleting "+key+": ")

	for _, wrong := range []*Store{server.open(t, signIn("write", "guessed", collect)), server.open(t)} {
		_, err = wrong.Stat(t.Context(), key)
		require.ErrorContains(t, err, "getting a token: 401 Unauthorized")
		require.NotErrorIs(t, err, store.ErrNotFound)
		err = wrong.Save(t.Context(), key, img)
		require.ErrorContains(t, err, "getting a token: 401 Unauthorized")
		require.NotErrorIs(t, err, store.ErrReadOnly, "what can't be read either is not read-only")
		require.NotContains(t, err.Error(), "guessed")
	}
}
