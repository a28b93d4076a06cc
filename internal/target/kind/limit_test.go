package kind

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/containerd"
)

// hung is a client of an engine that answers requests whose path has one of the words, and no other.
func hung(t *testing.T, answers map[string]string) *client.Client {
	t.Helper()
	dial := func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go serve(there, answers)
		return here, nil
	}
	api, err := client.New(client.WithHost("tcp://engine:1"), client.WithAPIVersion("1.41"),
		client.WithHTTPClient(&http.Client{Transport: &http.Transport{DialContext: dial}})) // behind the host, which has a dialer of its own
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, api.Close()) })
	return api
}

// serve answers the requests of one connection, until there is one that it knows no answer to.
func serve(conn net.Conn, answers map[string]string) {
	defer conn.Close()
	requests := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(requests)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		answer := ""
		for word, a := range answers {
			if strings.HasSuffix(r.URL.Path, word) {
				answer = a
			}
		}
		if answer == "" {
			break
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
	_, _ = io.Copy(io.Discard, requests)
}

func answer(status string, v any) string {
	body, _ := json.Marshal(v)
	return "HTTP/1.1 " + status + "\r\nContent-Type: application/json\r\nContent-Length: " + lengthOf(body) + "\r\n\r\n" + string(body)
}

func lengthOf(body []byte) string {
	n, _ := json.Marshal(len(body))
	return string(n)
}

const upgraded = "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.multiplexed-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"

// Whatever the engine or a program in a node does not answer, costs its time and no more.
func TestAnEngineThatHangs(t *testing.T) {
	t.Parallel()
	created := answer("201 Created", map[string]string{"Id": "exec"})
	fed := func(context.Context, io.Writer) error { return nil }
	for name, test := range map[string]struct {
		answers map[string]string
		stdin   func(context.Context, io.Writer) error
		want    string
	}{
		"creating an exec": {nil, fed, "running a program in it: the engine did not answer within 1m0s: see its log"},
		"starting it":      {map[string]string{"/exec": created}, fed, "running a program in it: the engine did not answer within 1m0s: see its log"},
		"its end":          {map[string]string{"/exec": created, "/start": upgraded}, nil, "ctr images check did not end within 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := New(Options{}).cluster
				ctr := c.namespace(hung(t, test.answers), node{id: "node", name: "kind-control-plane"}).Client.(*containerd.Ctr)
				began := time.Now()
				_, err := ctr.Runner.Run(t.Context(), command.Command{Argv: []string{"ctr", "images", "check"}, Stdin: test.stdin})
				require.EqualError(t, err, test.want)
				require.Less(t, time.Since(began), DefaultCall+2*parting)
				require.GreaterOrEqual(t, time.Since(began), DefaultCall)
			})
		})
	}
}

func TestAnEngineThatListsNoNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := nodesOf(t.Context(), hung(t, nil), DefaultCall)
		require.EqualError(t, err, "listing the nodes of kind clusters: the engine did not answer within 1m0s: see its log")
		require.NotErrorIs(t, err, target.ErrUnavailable)
		require.Equal(t, DefaultCall, time.Since(began))

		began = time.Now()
		require.NoError(t, room(t.Context(), hung(t, nil), DefaultCall, 1), "an engine elsewhere is not asked for room")
		require.Zero(t, time.Since(began))
	})
}

// A node that takes an image and then never ends unpacking it is given up after twenty minutes.
func TestANodeThatHangsWhileUnpacking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := hung(t, map[string]string{"/exec": answer("201 Created", map[string]string{"Id": "exec"}), "/start": upgraded})
		ctr := New(Options{}).namespace(api, node{id: "node", name: "kind-control-plane"}).Client.(*containerd.Ctr)
		began := time.Now()
		_, err := ctr.Runner.Run(t.Context(), command.Command{Argv: []string{"ctr"}, Stdin: func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, "an archive")
			return err
		}})
		require.EqualError(t, err, "ctr did not end behind its input within 20m0s")
		require.Less(t, time.Since(began), 20*time.Minute+2*parting)
	})
}
