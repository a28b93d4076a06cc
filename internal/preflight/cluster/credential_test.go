package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/preflight"
	"github.com/pullonce/pullonce/internal/preflight/apitest"
	"github.com/pullonce/pullonce/internal/preflight/cluster"
	"github.com/pullonce/pullonce/internal/preflight/kubeconfig"
	"github.com/pullonce/pullonce/internal/retry"
)

// as is a kubeconfig file for the bench's API, of a user.
func as(user string) string {
	return `
current-context: x
clusters: [{name: c, cluster: {server: "https://api.example", certificate-authority: ca.crt}}]
users: [{name: u, user: {` + user + `}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
`
}

// askOnce asks one question, and gives what the API saw.
func (b *bench) askOnce(t *testing.T, api *cluster.API) apitest.Request {
	t.Helper()
	_, err := api.Ask(t.Context(), one(t, "pods: get"))
	require.NoError(t, err)
	log := b.Log()
	require.Len(t, log, 1)
	return log[0]
}

func TestCredentialsOfEveryKind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &apitest.Server{})
		certificate, key, err := b.authority.Issue("runner")
		require.NoError(t, err)
		b.write(t, "c.crt", string(certificate))
		b.write(t, "c.key", string(key))
		for user, want := range map[string]apitest.Request{
			``:                               {},
			`token: secret`:                  {Token: "secret"},
			`tokenFile: token, token: older`: {Token: "token-1"},
			`username: me, password: secret`: {Token: "Basic bWU6c2VjcmV0"},
			`client-certificate: c.crt, client-key: c.key`: {User: "runner"},
			`token: x, as: other, as-uid: u-1, as-groups: [a, b], as-user-extra: {"example.com/k é": [v, w]}`: {Token: "x", As: map[string][]string{
				"Impersonate-User": {"other"}, "Impersonate-Uid": {"u-1"}, "Impersonate-Group": {"a", "b"},
				"Impersonate-Extra-Example.com%2fk%20%c3%a9": {"v", "w"},
			}},
		} {
			got := b.askOnce(t, b.kubeconfig(t, as(user)))
			require.Equal(t, want.Token, got.Token, user)
			require.Equal(t, want.User, got.User, user)
			require.Equal(t, want.As, got.As, user)
		}
	})
}

// plugins is a command.Runner that plays a program which makes credentials.
type plugins func(ctx context.Context, c command.Command) (command.Output, error)

func (p plugins) Run(ctx context.Context, c command.Command) (command.Output, error) {
	return p(ctx, c)
}

// plugin is the way to the API as a user whose credentials a program makes.
func (b *bench) plugin(t *testing.T, exec string, run plugins) *cluster.API {
	t.Helper()
	path := b.write(t, "config", as(`exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: get-token`+exec+`}`))
	api, err := cluster.Open(cluster.Options{Source: kubeconfig.Source{Path: path, LookupEnv: env(nil)}, Runner: run, Dial: b.network.Dial})
	require.NoError(t, err)
	return api
}

// made is what such a program writes.
func made(status string) (command.Output, error) {
	return command.Output{Stdout: `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{` + status + `}}`}, nil
}

func TestWhomAProgramMakesCredentialsForIsNotKnown(t *testing.T) {
	t.Parallel()
	b := newBench(t, &apitest.Server{})
	require.Empty(t, b.plugin(t, ``, nil).User())
	require.NotEmpty(t, b.pod(t).User())
}

func TestAProgramMakesCredentialsOnceForAllQuestions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &apitest.Server{})
		ran := 0
		api := b.plugin(t, `, args: [a], env: [{name: NAME, value: v}]`, func(_ context.Context, c command.Command) (command.Output, error) {
			ran++
			require.Equal(t, []string{"get-token", "a"}, c.Argv)
			require.Equal(t, []string{
				"NAME=v",
				`KUBERNETES_EXEC_INFO={"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false}}`,
			}, c.Env)
			return made(`"token":"made"`)
		})
		v, err := preflight.Ask(t.Context(), api, hooks(t), preflight.Options{})
		require.NoError(t, err)
		require.True(t, v.Allowed())
		require.Equal(t, 1, ran)
		for _, r := range b.Log() {
			require.Equal(t, "made", r.Token)
		}
	})
}

func TestMadeCredentialsAreMadeAnewWhenTheyExpireOrAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		b := newBench(t, &apitest.Server{Token: func(at time.Time) string {
			if at.Sub(began) < time.Minute {
				return "made-1"
			}
			return "made-3"
		}})
		ran := 0
		api := b.plugin(t, ``, func(context.Context, command.Command) (command.Output, error) {
			ran++
			return made(fmt.Sprintf(`"token":"made-%d","expirationTimestamp":%q`, ran, began.Add(time.Duration(ran)*time.Minute).Format(time.RFC3339)))
		})
		require.Equal(t, "made-1", b.askOnce(t, api).Token)
		require.NoError(t, retry.Sleep(t.Context(), 59*time.Second))
		require.Equal(t, "made-1", b.askOnce(t, api).Token)
		require.NoError(t, retry.Sleep(t.Context(), time.Second))
		v, err := preflight.Ask(t.Context(), api, []preflight.Question{one(t, "pods: get")}, preflight.Options{Jitter: shortest})
		require.NoError(t, err)
		require.True(t, v.Allowed())
		require.Equal(t, 2, v.Rows[0].Attempts)
		require.Equal(t, 3, ran)
	})
}

func TestAProgramMayMakeACertificate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &apitest.Server{})
		certificate, key, err := b.authority.Issue("made")
		require.NoError(t, err)
		api := b.plugin(t, ``, func(context.Context, command.Command) (command.Output, error) {
			status, err := json.Marshal(map[string]string{"clientCertificateData": string(certificate), "clientKeyData": string(key)})
			require.NoError(t, err)
			return made(strings.Trim(string(status), "{}"))
		})
		require.Equal(t, "made", b.askOnce(t, api).User)
	})
}

func TestAProgramIsToldOfTheCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &apitest.Server{})
		api := b.plugin(t, `, provideClusterInfo: true`, func(_ context.Context, c command.Command) (command.Output, error) {
			var told struct {
				Spec struct {
					Cluster struct {
						Server    string `json:"server"`
						Authority []byte `json:"certificate-authority-data"`
					} `json:"cluster"`
				} `json:"spec"`
			}
			require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(c.Env[0], "KUBERNETES_EXEC_INFO=")), &told))
			require.Equal(t, "https://api.example", told.Spec.Cluster.Server)
			require.Equal(t, b.authority.PEM(), told.Spec.Cluster.Authority)
			return made(`"token":"x"`)
		})
		b.askOnce(t, api)
	})
}

// TestAProgramThatFails says why, and nothing of what it wrote to its standard output.
func TestAProgramThatFails(t *testing.T) {
	t.Parallel()
	for title, c := range map[string]struct {
		out  command.Output
		err  error
		want string
	}{
		"exit code": {err: &command.Error{
			Command: command.Command{Argv: []string{"get-token"}}, Code: 1, Output: command.Output{Stdout: "secret", Stderr: "log in first"},
		}, want: "making credentials: get-token: exit code 1: log in first"},
		"not there":      {err: fmt.Errorf("%w: get-token", command.ErrNotFound), want: "making credentials: program not found: get-token (see example.com)"},
		"no JSON":        {out: command.Output{Stdout: "secret"}, want: "making credentials: get-token: its output is no ExecCredential"},
		"nothing":        {out: command.Output{Stdout: `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential"}`}, want: "making credentials: get-token: it made no credentials"},
		"other version":  {out: command.Output{Stdout: `{"apiVersion":"v1","kind":"ExecCredential","status":{"token":"secret"}}`}, want: `making credentials: get-token: it answers in "v1", and "client.authentication.k8s.io/v1" is configured`},
		"half a pair":    {out: command.Output{Stdout: `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"clientKeyData":"secret"}}`}, want: "making credentials: the client has a certificate or a key, and needs both"},
		"no certificate": {out: command.Output{Stdout: `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"clientCertificateData":"secret","clientKeyData":"secret"}}`}, want: "making credentials: reading the client's certificate: tls: failed to find any PEM data in certificate input"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, &apitest.Server{})
				api := b.plugin(t, `, installHint: see example.com`, func(context.Context, command.Command) (command.Output, error) { return c.out, c.err })
				v, err := preflight.Ask(t.Context(), api, []preflight.Question{one(t, "pods: get")}, preflight.Options{})
				require.NoError(t, err)
				require.Equal(t, 3, v.Rows[0].Attempts)
				require.EqualError(t, v.Rows[0].LastFailure, c.want)
				require.Empty(t, b.Log())
			})
		})
	}
}

// TestAProgramThatHangs costs what any try costs that hangs, for all questions together.
func TestAProgramThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &apitest.Server{})
		ran := 0
		api := b.plugin(t, ``, func(ctx context.Context, _ command.Command) (command.Output, error) {
			if ran++; ran == 1 {
				<-ctx.Done()
				return command.Output{}, context.Cause(ctx)
			}
			return made(`"token":"x"`)
		})
		began := time.Now()
		v, err := preflight.Ask(t.Context(), api, hooks(t), preflight.Options{Jitter: shortest})
		require.NoError(t, err)
		require.True(t, v.Allowed())
		require.Equal(t, 16*time.Second, time.Since(began))
	})
}

// TestARealProgram is one that a shell runs.
func TestARealProgram(t *testing.T) {
	t.Parallel()
	b := newBench(t, &apitest.Server{})
	b.write(t, "get-token", `#!/bin/sh
test -n "$KUBERNETES_EXEC_INFO" || exit 1
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"real"}}'
`)
	api := b.kubeconfig(t, as(`exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: ./get-token}`))
	require.Equal(t, "real", b.askOnce(t, api).Token)
}

func TestWhatHasNoTLSGetsNoCredentials(t *testing.T) {
	t.Parallel()
	var seen atomic.Value
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"status":{"allowed":true}}`)
	}))
	t.Cleanup(plain.Close)
	path := filepath.Join(t.TempDir(), "config")
	text := strings.NewReplacer("https://api.example", strings.TrimPrefix(plain.URL, "http://"), ", certificate-authority: ca.crt", "").Replace(as(`token: secret`))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	api, err := cluster.Open(cluster.Options{Source: kubeconfig.Source{Path: path, LookupEnv: env(nil)}})
	require.NoError(t, err)
	answer, err := api.Ask(t.Context(), one(t, "pods: get"))
	require.NoError(t, err)
	require.True(t, answer.Allowed)
	require.Empty(t, seen.Load())
}

// TestProxies reaches an API on a socket through a proxy on another one, which refuses at first.
func TestProxies(t *testing.T) {
	t.Parallel()
	server := &apitest.Server{}
	b := newBench(t, server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	stop, err := server.Serve(listener, b.authority)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stop()) })
	proxy := &connector{to: listener.Addr().String()}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)

	text := strings.ReplaceAll(as(`token: x`), `certificate-authority: ca.crt`, `certificate-authority: ca.crt, proxy-url: "`+front.URL+`"`)
	api := b.open(t, kubeconfig.Source{Path: b.write(t, "config", text), LookupEnv: env(nil)}, nil)
	_, err = api.Ask(t.Context(), one(t, "pods: get"))
	class, _ := retry.ClassOf(err)
	require.Equal(t, retry.Transient, class)
	require.EqualError(t, err, "the proxy: 502 Bad Gateway")
	require.Equal(t, "x", b.askOnce(t, api).Token)
	require.Equal(t, "api.example:443", proxy.asked.Load())
}

// connector is a proxy that leads everybody to one address, except for the first.
type connector struct {
	to    string
	calls atomic.Int32
	asked atomic.Value
}

func (c *connector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.calls.Add(1) == 1 {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	c.asked.Store(r.Host)
	there, err := new(net.Dialer).DialContext(r.Context(), "tcp", c.to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer there.Close()
	w.WriteHeader(http.StatusOK)
	here, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	var copying errgroup.Group
	copying.Go(func() error {
		_, err := io.Copy(there, here)
		return errors.Join(err, there.Close())
	})
	_, _ = io.Copy(here, there)
	_ = here.Close()
	_ = copying.Wait()
}
