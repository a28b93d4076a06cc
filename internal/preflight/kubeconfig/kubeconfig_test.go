package kubeconfig_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/preflight/kubeconfig"
)

const minimal = `{current-context: x, clusters: [{name: c, cluster: {server: "https://file"}}], contexts: [{name: x, context: {cluster: c}}]}`

// TestWhereTheConfigurationIsLookedFor adds one source after the other, each before the last.
func TestWhereTheConfigurationIsLookedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	variables := map[string]string{"HOME": dir}
	source := kubeconfig.Source{LookupEnv: env(variables), ServiceAccount: dir}
	_, err := source.Load()
	require.ErrorIs(t, err, kubeconfig.ErrNone)

	variables["KUBERNETES_SERVICE_HOST"], variables["KUBERNETES_SERVICE_PORT"] = "fd00::1", "443"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "namespace"), []byte("pods\n"), 0o600))
	c, err := source.Load()
	require.NoError(t, err)
	require.Equal(t, kubeconfig.Config{
		Cluster: kubeconfig.Cluster{Server: "https://[fd00::1]:443", Authority: kubeconfig.Material{File: filepath.Join(dir, "ca.crt")}},
		User:    kubeconfig.User{TokenFile: filepath.Join(dir, "token")}, Namespace: "pods",
	}, c)

	write(t, dir, ".kube/config", minimal)
	c, err = source.Load()
	require.NoError(t, err)
	require.Equal(t, "https://file", c.Cluster.Server)

	variables["KUBECONFIG"] = write(t, dir, "other", `{current-context: gone}`)
	_, err = source.Load()
	require.EqualError(t, err, `there is no context "gone"`)

	source.Path = write(t, dir, "named", minimal)
	_, err = source.Load()
	require.NoError(t, err)
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestWhatCannotBeUsedIsSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	user := func(text string) string {
		return `{current-context: x, clusters: [{name: c, cluster: {server: "https://file"}}], users: [{name: u, user: {` + text + `}}], contexts: [{name: x, context: {cluster: c, user: u}}]}`
	}
	for text, want := range map[string]string{
		`{}`:                                "no context is named, and none is the current one",
		user(`auth-provider: {name: oidc}`): `the auth-provider "oidc" is of the past`,
		user(`exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Always}`): "nobody is there",
	} {
		_, err := kubeconfig.Source{Path: write(t, dir, "config", text), LookupEnv: env(nil)}.Load()
		require.ErrorContains(t, err, want)
	}
	_, err := kubeconfig.Source{Path: filepath.Join(dir, "absent"), LookupEnv: env(nil)}.Load()
	require.ErrorIs(t, err, os.ErrNotExist)
}

func FuzzLoad(f *testing.F) {
	f.Add(minimal)
	f.Add("current-context: x\nusers: [{name: u, user: {exec: {command: a/b, env: [{}]}}}]\ncontexts: [{name: x, context: {}}]")
	f.Add("clusters: [{cluster: {certificate-authority-data: YQ==, extensions: [{name: client.authentication.k8s.io/exec, extension: {a: [1]}}]}}]")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := kubeconfig.Source{Path: write(t, t.TempDir(), "config", text), LookupEnv: env(nil)}.Load()
		if err == nil {
			require.NotEmpty(t, c.Cluster.Server)
		}
	})
}
