package cluster_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/preflight"
	"github.com/pullonce/pullonce/internal/preflight/apitest"
	"github.com/pullonce/pullonce/internal/preflight/cluster"
	"github.com/pullonce/pullonce/internal/preflight/kubeconfig"
)

// bench is an API on a network in memory, and a pod's credentials for it.
type bench struct {
	*apitest.Server
	network   *apitest.Network
	authority *apitest.Authority
	dir       string
}

// newBench starts server. It is called inside of a bubble, where there is one.
func newBench(t *testing.T, server *apitest.Server) *bench {
	t.Helper()
	authority, err := apitest.NewAuthority()
	require.NoError(t, err)
	b := &bench{server, server.Network(), authority, t.TempDir()}
	require.NoError(t, authority.ServiceAccount(b.dir, "token-1", "ci"))
	stop, err := server.Serve(b.network, authority)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stop()) })
	return b
}

// pod is the way to the API from a pod.
func (b *bench) pod(t *testing.T) *cluster.API {
	t.Helper()
	return b.open(t, kubeconfig.Source{
		ServiceAccount: b.dir, LookupEnv: env(map[string]string{"KUBERNETES_SERVICE_HOST": "api.example", "KUBERNETES_SERVICE_PORT": "443"}),
	}, b.network.Dial)
}

// kubeconfig is the way to the API by a kubeconfig file, which is written here.
func (b *bench) kubeconfig(t *testing.T, text string) *cluster.API {
	t.Helper()
	return b.open(t, kubeconfig.Source{Path: b.write(t, "config", text), LookupEnv: env(nil)}, b.network.Dial)
}

func (b *bench) open(t *testing.T, source kubeconfig.Source, dial func(context.Context, string, string) (net.Conn, error)) *cluster.API {
	t.Helper()
	api, err := cluster.Open(cluster.Options{Source: source, Runner: command.Host{}, Dial: dial})
	require.NoError(t, err)
	return api
}

// write writes a file beside the credentials and gives its path.
func (b *bench) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(b.dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o700))
	return path
}

func env(variables map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}
}

// hooks are the questions of a runner's container hooks, thirteen of them.
func hooks(t *testing.T) []preflight.Question {
	t.Helper()
	permissions, err := preflight.Parse(preflight.Default())
	require.NoError(t, err)
	require.Len(t, permissions, 13)
	return preflight.Questions(permissions, "ci")
}

// one is a single question.
func one(t *testing.T, line string) preflight.Question {
	t.Helper()
	permissions, err := preflight.Parse([]string{line})
	require.NoError(t, err)
	require.Len(t, permissions, 1)
	return preflight.Questions(permissions, "ci")[0]
}

// shortest makes every wait as short as it gets.
func shortest(preflight.Question) func() float64 { return func() float64 { return 0 } }
