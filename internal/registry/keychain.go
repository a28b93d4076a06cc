package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullonce/pullonce/internal/command"
)

const (
	// hubAccount is the name under which Docker keeps the Hub's credentials.
	hubAccount = "https://index.docker.io/v1/"
	// helperLimit bounds one call of a credential helper.
	helperLimit = 30 * time.Second
	// identityUser is the user name under which helpers give an identity token in place of a password
	// (docker-credential-helpers, "get").
	identityUser = "<token>"
)

// DockerKeychain gives the credentials that `docker login` stored: the auths of config.json in dir, and credential
// helpers, which are asked for the very host that is pulled from and for no other. Without dir or without the file all
// is anonymous.
func DockerKeychain(dir string) authn.Keychain { return &dockerKeychain{dir: dir} }

type dockerKeychain struct{ dir string }

var _ authn.ContextKeychain = (*dockerKeychain)(nil)

// dockerConfig is what this package reads of Docker's config.json.
type dockerConfig struct {
	Auths       map[string]authn.AuthConfig `json:"auths"`
	CredsStore  string                      `json:"credsStore"`
	CredHelpers map[string]string           `json:"credHelpers"`
}

// Resolve implements authn.Keychain.
func (k *dockerKeychain) Resolve(r authn.Resource) (authn.Authenticator, error) {
	return k.ResolveContext(context.Background(), r)
}

// ResolveContext implements authn.ContextKeychain.
func (k *dockerKeychain) ResolveContext(ctx context.Context, r authn.Resource) (authn.Authenticator, error) {
	config, err := k.read()
	if err != nil {
		return nil, err
	}
	account := r.RegistryStr()
	if account == dockerHub {
		account = hubAccount
	}
	if helper := config.helper(account, r.RegistryStr()); helper != "" {
		return askHelper(ctx, helper, account)
	}
	for _, name := range []string{r.String(), account, r.RegistryStr()} {
		if auth, ok := config.auth(name); ok {
			return authn.FromConfig(auth), nil
		}
	}
	return authn.Anonymous, nil
}

func (k *dockerKeychain) read() (dockerConfig, error) {
	var config dockerConfig
	if k.dir == "" {
		return config, nil
	}
	path := filepath.Join(k.dir, "config.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return config, nil
	}
	if err != nil {
		return config, fmt.Errorf("reading Docker's configuration: %w", err)
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return config, fmt.Errorf("reading %s: %w", path, err)
	}
	return config, nil
}

// helper is the credential helper that is responsible for a host, or "".
func (c dockerConfig) helper(account, domain string) string {
	for _, name := range []string{account, domain} {
		if helper, ok := c.CredHelpers[name]; ok {
			return helper
		}
	}
	return c.CredsStore
}

// auth finds the stored credential for a host or repository. Older versions of Docker wrote hosts as URLs.
func (c dockerConfig) auth(name string) (authn.AuthConfig, bool) {
	for stored, auth := range c.Auths {
		if stored != name && bareHost(stored) != name {
			continue
		}
		if auth.Username != "" || auth.Password != "" || auth.IdentityToken != "" || auth.RegistryToken != "" {
			return auth, true
		}
	}
	return authn.AuthConfig{}, false
}

// bareHost is the host of "https://host/v1/", and anything else as it is.
func bareHost(stored string) string {
	_, rest, ok := strings.Cut(stored, "://")
	if !ok {
		return stored
	}
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// askHelper runs docker-credential-<helper> get. What the helper leaves running, such as an agent that keeps its output
// open, is not waited for. A helper that has nothing for the account makes the pull anonymous.
func askHelper(ctx context.Context, helper, account string) (authn.Authenticator, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, helperLimit, &stallError{"answer", helperLimit})
	defer cancel()
	out, err := command.Host{}.Run(ctx, command.Command{
		Argv: []string{"docker-credential-" + helper, "get"},
		Stdin: func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, account)
			return err
		},
	})
	if err != nil {
		// The protocol has no exit status of its own for "not found", only this text.
		if strings.Contains(out.Stdout, "credentials not found") {
			return authn.Anonymous, nil
		}
		return nil, fmt.Errorf("running docker-credential-%s: %w", helper, err)
	}
	var got struct{ Username, Secret string }
	if err := json.Unmarshal([]byte(out.Stdout), &got); err != nil {
		return nil, fmt.Errorf("reading the answer of docker-credential-%s: %w", helper, err)
	}
	if got.Username == identityUser {
		return authn.FromConfig(authn.AuthConfig{IdentityToken: got.Secret}), nil
	}
	return authn.FromConfig(authn.AuthConfig{Username: got.Username, Password: got.Secret}), nil
}
