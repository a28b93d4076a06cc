package kubeconfig_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pullonce/pullonce/internal/preflight/apitest"
	"github.com/pullonce/pullonce/internal/preflight/kubeconfig"
)

// TestItReadsWhatClientGoReads gives the same files to k8s.io/client-go, which kubectl is built on, and holds what is read
// here to what it makes of them.
func TestItReadsWhatClientGoReads(t *testing.T) {
	t.Parallel()
	for title, c := range sets() {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeCredentials(t, dir)
			var paths []string
			for i, text := range c.files {
				path := filepath.Join(dir, fmt.Sprintf("config-%d", i))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
				paths = append(paths, path)
			}
			list := strings.Join(append(paths, filepath.Join(dir, "absent")), string(filepath.ListSeparator))
			ours, err := kubeconfig.Source{Context: c.context, LookupEnv: env(map[string]string{"KUBECONFIG": list})}.Load()
			theirs, namespace, theirErr := load(list, c.context)
			require.Equal(t, c.fails, err != nil, "ours: %v", err)
			require.Equal(t, c.fails, theirErr != nil, "client-go's: %v", theirErr)
			if c.fails {
				return
			}
			require.Equal(t, expected(t, theirs, namespace), ours)
		})
	}
}

// writeCredentials writes the files that the kubeconfig files name.
func writeCredentials(t *testing.T, dir string) {
	t.Helper()
	authority, err := apitest.NewAuthority()
	require.NoError(t, err)
	certificate, key, err := authority.Issue("runner")
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	for name, data := range map[string]string{"token": "from-file\n", "ca.crt": string(authority.PEM()), "sub/c.crt": string(certificate), "c.key": string(key)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
	}
}

func env(variables map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}
}

// load is what client-go makes of files.
func load(list, context string) (*rest.Config, string, error) {
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(list)}
	raw, err := rules.Load()
	if err != nil {
		return nil, "", err
	}
	config := clientcmd.NewNonInteractiveClientConfig(*raw, context, &clientcmd.ConfigOverrides{}, rules)
	loaded, err := config.ClientConfig()
	if err != nil {
		return nil, "", err
	}
	if _, err := rest.TLSConfigFor(loaded); err != nil {
		return nil, "", err
	}
	if _, err := rest.HTTPWrappersForConfig(loaded, http.DefaultTransport); err != nil {
		return nil, "", err
	}
	namespace, _, err := config.Namespace()
	return loaded, namespace, err
}

// expected is client-go's configuration in our terms.
func expected(t *testing.T, c *rest.Config, namespace string) kubeconfig.Config {
	t.Helper()
	want := kubeconfig.Config{
		Cluster: kubeconfig.Cluster{
			Server: c.Host, ServerName: c.ServerName, Insecure: c.Insecure,
			Authority: kubeconfig.Material{PEM: c.CAData, File: c.CAFile}, DisableCompression: c.DisableCompression,
		},
		User: kubeconfig.User{
			Certificate: kubeconfig.Material{PEM: c.CertData, File: c.CertFile}, Key: kubeconfig.Material{PEM: c.KeyData, File: c.KeyFile},
			Token: c.BearerToken, TokenFile: c.BearerTokenFile, Username: c.Username, Password: c.Password,
			As: kubeconfig.Impersonation{
				User: c.Impersonate.UserName, UID: c.Impersonate.UID, Groups: c.Impersonate.Groups, Extra: c.Impersonate.Extra,
			},
		},
		Namespace: strings.TrimPrefix(namespace, "default"), // which is what it says where nothing does
	}
	if c.Proxy != nil {
		proxy, err := c.Proxy(nil)
		require.NoError(t, err)
		want.Cluster.ProxyURL = proxy.String()
	}
	if c.BearerTokenFile != "" && c.BearerToken == "from-file\n" {
		want.User.Token = "" // it has read the file; we do when we ask
	}
	if e := c.ExecProvider; e != nil {
		want.User.Exec = &kubeconfig.Exec{
			APIVersion: e.APIVersion, Command: e.Command, Args: e.Args, InstallHint: e.InstallHint,
			ProvideClusterInfo: e.ProvideClusterInfo, InteractiveMode: string(e.InteractiveMode),
		}
		for _, variable := range e.Env {
			want.User.Exec.Env = append(want.User.Exec.Env, kubeconfig.Variable{Name: variable.Name, Value: variable.Value})
		}
	}
	return want
}

type set struct {
	files   []string
	context string
	fails   bool
}

// with is a kubeconfig file with one cluster, one user and one context.
func with(cluster, user string) set {
	return set{files: []string{fmt.Sprintf(`
apiVersion: v1
kind: Config
preferences: {}
current-context: here
clusters: [{name: c, cluster: {%s}}]
users: [{name: u, user: {%s}}]
contexts: [{name: here, context: {cluster: c, user: u, namespace: ci}}]
`, cluster, user)}}
}

func failing(s set) set {
	s.fails = true
	return s
}

// authority is a certificate in base64, which nobody will be asked to trust.
const authority = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJPakNCNEtBREFnRUNBZ0VCTUFvR0NDcUdTTTQ5QkFNQ01BNHhEREFLQmdOVkJBTVRBMk5oTVRBZUZ3MHkKTURBeE1ERXdNREF3TURCYUZ3MDBNREF4TURFd01EQXdNREJhTUE0eEREQUtCZ05WQkFNVEEyTmhNVEJaTUJNRwpCeXFHU000OUFnRUdDQ3FHU000OUF3RUhBMElBQktnPQotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCg=="

func sets() map[string]set {
	const server = `server: "https://10.0.0.1:6443"`
	const v1, v1beta1 = `apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never`, `apiVersion: client.authentication.k8s.io/v1beta1`
	two := []string{`
current-context: second
clusters: [{name: c, cluster: {server: "https://one"}}]
users: [{name: u, user: {token: one}}]
`, `
current-context: first
clusters: [{name: c, cluster: {server: "https://two"}}, {name: d, cluster: {server: "https://three"}}]
users: [{name: u, user: {token: two}}, {name: v, user: {token: three}}]
contexts:
- {name: first, context: {cluster: c, user: u}}
- {name: second, context: {cluster: d, user: v, namespace: other}}
`}
	return map[string]set{
		"token":                     with(server, `token: secret`),
		"token file":                with(server, `tokenFile: token`),
		"token and its file":        with(server, `token: secret, tokenFile: token`),
		"password":                  with(server, `username: me, password: secret`),
		"nobody":                    with(server, ``),
		"files of certificates":     with(server+`, certificate-authority: ca.crt`, `client-certificate: sub/c.crt, client-key: c.key`),
		"tls-server-name":           with(server+`, tls-server-name: api.example`, `token: x`),
		"insecure":                  with(server+`, insecure-skip-tls-verify: true`, `token: x`),
		"proxy":                     with(server+`, proxy-url: "socks5://proxy.example:1080"`, `token: x`),
		"path":                      with(`server: "https://10.0.0.1/k8s/clusters/c-1"`, `token: x`),
		"compression":               with(server+`, disable-compression: true`, `token: x`),
		"impersonation":             with(server, `token: x, as: other, as-uid: "7", as-groups: [a, b], as-user-extra: {scopes: [one, two]}`),
		"plugin":                    with(server, `exec: {`+v1+`, command: get-token, args: [a, b], env: [{name: NAME, value: v}], installHint: "install it", provideClusterInfo: true}`),
		"plugin in a folder":        with(server, `exec: {`+v1+`, command: ./bin/get-token}`),
		"plugin of the old kind":    with(server, `exec: {`+v1beta1+`, command: get-token}`),
		"JSON":                      {files: []string{`{"current-context":"x","clusters":[{"name":"c","cluster":{"server":"https://h"}}],"contexts":[{"name":"x","context":{"cluster":"c","user":""}}]}`}},
		"two files":                 {files: two},
		"two files, another order":  {files: []string{two[1], two[0]}},
		"a context that is named":   {files: two, context: "first"},
		"no such context":           {files: two, context: "third", fails: true},
		"no such cluster":           {files: []string{"current-context: x\ncontexts: [{name: x, context: {cluster: gone, user: \"\"}}]"}, fails: true},
		"no server":                 failing(with(``, `token: x`)),
		"token and password":        failing(with(server, `token: x, username: me, password: z`)),
		"authority, but insecure":   failing(with(server+`, insecure-skip-tls-verify: true, certificate-authority-data: `+authority, `token: x`)),
		"proxy of another kind":     failing(with(server+`, proxy-url: "ftp://proxy"`, `token: x`)),
		"groups of nobody":          failing(with(server, `token: x, as-groups: [a]`)),
		"plugin without a command":  failing(with(server, `exec: {`+v1+`}`)),
		"plugin without a version":  failing(with(server, `exec: {command: x}`)),
		"plugin that is old":        failing(with(server, `exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}`)),
		"plugin without its manner": failing(with(server, `exec: {apiVersion: client.authentication.k8s.io/v1, command: x}`)),
		"key without certificate":   failing(with(server, `client-certificate: c.crt`)),
		"not YAML":                  {files: []string{"{"}, fails: true},
		"not base64":                failing(with(server+`, certificate-authority-data: "!"`, `token: x`)),
		"one name twice":            {files: []string{"current-context: x\nclusters: [{name: c, cluster: {server: \"https://a\"}}, {name: c, cluster: {server: \"https://b\"}}]\ncontexts: [{name: x, context: {cluster: c, user: \"\"}}]"}, fails: true},
	}
}
