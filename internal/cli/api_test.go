package cli_test

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pullonce/pullonce/internal/preflight/apitest"
)

// subscribe subscribes to signals, as main does.
func subscribe(signals ...os.Signal) (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 8)
	signal.Notify(c, signals...)
	return c, func() { signal.Stop(c) }
}

// serveAPI starts a cluster's API on a socket, and writes a kubeconfig file to dir, of a user who is allowed everything
// that the server does not deny.
func serveAPI(server *apitest.Server, dir string) (stop func() error, err error) {
	authority, err := apitest.NewAuthority()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if stop, err = server.Serve(listener, authority); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), authority.PEM(), 0o600); err != nil {
		return nil, err
	}
	return stop, os.WriteFile(filepath.Join(dir, "kubeconfig"), fmt.Appendf(nil, `
current-context: ci
clusters: [{name: fake, cluster: {server: "https://%s", certificate-authority: ca.crt}}]
users: [{name: runner, user: {token: secret-token}}]
contexts: [{name: ci, context: {cluster: fake, user: runner, namespace: ci}}]
`, listener.Addr()), 0o600)
}

type apiKey struct{}

// api [-FAULT] [PERMISSION…]: starts a cluster's API that denies the permissions, and writes a kubeconfig file. With a
// fault it has that for the first second.
func api(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: api [-FAULT] [PERMISSION…]")
	}
	server := ts.Value(apiKey{}).(*apitest.Server)
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		fault, passes := apitest.Fault(args[0][1:]), time.Now().Add(time.Second)
		server.Faults = func(at time.Time) apitest.Fault {
			if at.Before(passes) {
				return fault
			}
			return apitest.None
		}
		args = args[1:]
	}
	server.Denied = args
	stop, err := serveAPI(server, ts.MkAbs("."))
	ts.Check(err)
	ts.Defer(func() { _ = stop() })
}

// questions N: the API has been asked N questions since it was last asked for.
func questions(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: questions N")
	}
	log := ts.Value(apiKey{}).(*apitest.Server).Log()
	if fmt.Sprint(len(log)) != args[0] {
		ts.Fatalf("the API was asked %d questions, want %s: %v", len(log), args[0], log)
	}
}
