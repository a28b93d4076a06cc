package kind

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/target/docker"
)

// engine is a Docker engine as far as nodes need one: it lists them, and runs programs in them that are functions.
type engine struct {
	t       *testing.T
	nodes   []map[string]any
	program func(argv []string, stdin io.Reader, stdout, stderr io.Writer) (code int)
	// forgets has it not notice that a program has ended.
	forgets bool
	// refuse, if set, answers the making of an exec.
	refuse func(w http.ResponseWriter)

	mu    sync.Mutex
	execs map[string][]string // argv by id
	codes map[string]int
}

// newEngine has a cluster of one node.
func newEngine(t *testing.T) *engine {
	return &engine{t: t, execs: map[string][]string{}, codes: map[string]int{}, nodes: []map[string]any{{
		"Id": "node", "Names": []string{"/kind-control-plane"}, "State": "running",
		"Labels": map[string]string{"io.x-k8s.kind.cluster": "kind", "io.x-k8s.kind.role": "control-plane"},
	}}}
}

// target serves the engine on a socket and gives the target that talks to it.
func (e *engine) target(opts Options) *Kind {
	dir, err := os.MkdirTemp("", "pullonce") // short: a socket's path has room for 107 bytes
	require.NoError(e.t, err)
	path := filepath.Join(dir, "docker.sock")
	listener, err := net.Listen("unix", path)
	require.NoError(e.t, err)
	server := httptest.NewUnstartedServer(e.handler())
	require.NoError(e.t, server.Listener.Close())
	server.Listener = listener
	server.Start()
	opts.Engine, err = docker.New(docker.Options{Host: "unix://" + path})
	require.NoError(e.t, err)
	e.t.Cleanup(func() {
		require.NoError(e.t, opts.Engine.Close())
		server.Close()
		require.NoError(e.t, os.RemoveAll(dir))
	})
	return New(opts)
}

// runner is how the target runs programs in the node.
func (e *engine) runner(opts Options) *runner {
	k := e.target(opts)
	api, err := k.Engine.API(e.t.Context())
	require.NoError(e.t, err)
	return &runner{api: api, node: node{id: "node", name: "kind-control-plane"}, stall: k.Stall, settle: 100 * time.Millisecond, call: k.Call}
}

func (e *engine) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/_ping", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.41") })
	mux.HandleFunc("GET /v1.41/version", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]string{"Version": "99.1", "Os": "linux", "Arch": "amd64"})
	})
	mux.HandleFunc("GET /v1.41/info", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, map[string]string{}) })
	mux.HandleFunc("GET /v1.41/containers/json", func(w http.ResponseWriter, r *http.Request) {
		require.Contains(e.t, r.FormValue("filters"), "io.x-k8s.kind.cluster")
		reply(w, http.StatusOK, e.nodes)
	})
	mux.HandleFunc("GET /v1.41/containers/{id}/json", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"State": map[string]any{"Running": true, "Status": "running"}})
	})
	mux.HandleFunc("POST /v1.41/containers/{id}/exec", e.create)
	mux.HandleFunc("POST /v1.41/exec/{id}/start", e.start)
	mux.HandleFunc("GET /v1.41/exec/{id}/json", func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		code, ended := e.codes[r.PathValue("id")]
		reply(w, http.StatusOK, map[string]any{"ID": r.PathValue("id"), "Running": !ended, "ExitCode": code})
	})
	return mux
}

func (e *engine) create(w http.ResponseWriter, r *http.Request) {
	if e.refuse != nil {
		e.refuse(w)
		return
	}
	var body struct{ Cmd []string }
	require.NoError(e.t, json.NewDecoder(r.Body).Decode(&body))
	e.mu.Lock()
	defer e.mu.Unlock()
	id := fmt.Sprint("exec", len(e.execs))
	e.execs[id] = body.Cmd
	reply(w, http.StatusCreated, map[string]string{"Id": id})
}

func (e *engine) start(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	e.mu.Lock()
	argv := e.execs[id]
	e.mu.Unlock()
	_, err := io.Copy(io.Discard, r.Body)
	require.NoError(e.t, err)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	require.NoError(e.t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.multiplexed-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
	require.NoError(e.t, err)
	code := e.program(argv, rest(buffered.Reader, conn), &stream{conn, 1}, &stream{conn, 2})
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.forgets {
		e.codes[id] = code
	}
}

// rest is what is left of a connection behind a request.
func rest(buffered *bufio.Reader, conn net.Conn) io.Reader {
	head, _ := buffered.Peek(buffered.Buffered())
	return io.MultiReader(strings.NewReader(string(head)), conn)
}

// stream is one output of a program, in the frames of Docker's multiplexed streams.
type stream struct {
	w  io.Writer
	id byte
}

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	frame := binary.BigEndian.AppendUint32([]byte{s.id, 0, 0, 0}, uint32(len(p)))
	_, err := s.w.Write(append(frame, p...))
	return len(p), err
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
