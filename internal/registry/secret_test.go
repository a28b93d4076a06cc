package registry_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
)

// told gathers the secrets that a client tells of.
type told struct {
	mu      sync.Mutex
	secrets []string
}

func (s *told) secret(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets = append(s.secrets, value)
}

// echo refuses a request that shows credentials, with a body that repeats them at the end of many words.
func echo(w http.ResponseWriter, req *http.Request, next http.Handler) {
	if req.Header.Get("Authorization") == "" {
		next.ServeHTTP(w, req)
		return
	}
	user, password, _ := req.BasicAuth()
	text := "you sent " + user + " " + password + " " + url.QueryEscape(password) + " " + req.Header.Get("Authorization")
	regtest.Answer(http.StatusForbidden, "text/plain", strings.Repeat("no ", 55)+text)(w, req, nil)
}

// TestSecretsThatARegistryRepeats also holds the cut to come last: the words before reach just into the password.
func TestSecretsThatARegistryRepeats(t *testing.T) {
	t.Parallel()
	const password = "pa:ss,w0rd with %41 and more of it, so that it is cut"
	for name, auth := range map[string]regtest.Auth{
		"user and password": {Basic: true, User: "me", Password: password},
		"token":             {User: "me", Password: password},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg := regtest.New(regtest.Options{Auth: &auth})
			reg.Add("app:1", regtest.RandomImage(1, 1, 100))
			reg.Always(regtest.Match{Kind: regtest.KindManifest}, echo)
			heard := &told{}
			client := registry.New(registry.Options{
				Transport: reg.Transport("192.0.2.1"), ConfigDir: dockerConfig(t, "registry.example", "me", password),
				Policy: quick, Secret: heard.secret,
			})
			t.Cleanup(func() { require.NoError(t, client.Close()) })
			_, err := client.Pull(t.Context(), reference.MustParse("registry.example/app:1"), amd64)
			require.ErrorContains(t, err, "403 Forbidden: no no")
			for _, secret := range []string{"pa:ss", "pa%3Ass", "regtest-token-1", "Basic bWU"} {
				require.NotContains(t, err.Error(), secret)
			}
			require.Contains(t, heard.secrets, password)
			if !auth.Basic {
				require.Contains(t, heard.secrets, "regtest-token-1")
			}
		})
	}
}
