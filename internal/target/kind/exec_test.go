package kind

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/target"
)

func TestProgramInANode(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	e.program = func(argv []string, stdin io.Reader, stdout, stderr io.Writer) int {
		input, err := io.ReadAll(stdin)
		require.NoError(t, err)
		fmt.Fprintf(stdout, "%s: %d bytes", strings.Join(argv, " "), len(input))
		fmt.Fprint(stderr, "a warning")
		return len(argv) - 1
	}
	feed := func(_ context.Context, w io.Writer) error {
		_, err := w.Write(make([]byte, 1<<20))
		return err
	}
	r := e.runner(Options{})
	out, err := r.Run(t.Context(), command.Command{Argv: []string{"ctr"}, Stdin: feed})
	require.NoError(t, err)
	require.Equal(t, command.Output{Stdout: "ctr: 1048576 bytes", Stderr: "a warning"}, out)

	_, err = r.Run(t.Context(), command.Command{Argv: []string{"ctr", "a", "b"}, Stdin: feed})
	failed, ok := errors.AsType[*command.Error](err)
	require.True(t, ok)
	require.Equal(t, 2, failed.Code)
	require.EqualError(t, err, "ctr a b: exit code 2: a warning")
}

func TestProgramThatReadsNoMore(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	e.program = func(_ []string, _ io.Reader, _, stderr io.Writer) int {
		fmt.Fprint(stderr, "no space left on device")
		return 1
	}
	_, err := e.runner(Options{}).Run(t.Context(), command.Command{Argv: []string{"ctr"}, Stdin: func(ctx context.Context, w io.Writer) error {
		for ctx.Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return err
			}
		}
		return ctx.Err()
	}})
	require.EqualError(t, err, "ctr: exit code 1: no space left on device")
}

// The program can't be killed, and must not take the beginning of a tar for the whole: wherever it breaks.
func TestBrokenInputIsNoTar(t *testing.T) {
	t.Parallel()
	var whole bytes.Buffer
	tw := tar.NewWriter(&whole)
	for _, name := range []string{"a", "b"} {
		require.NoError(t, tw.WriteHeader(&tar.Header{Name: name, Size: 700, Mode: 0o644}))
		_, err := tw.Write(make([]byte, 700))
		require.NoError(t, err)
	}
	require.NoError(t, tw.Close())
	broken := errors.New("broken")
	for at := 0; at < whole.Len()-1024; at += 32 { // behind that there is nothing but the trailer
		e := newEngine(t)
		took := make(chan error, 1)
		e.program = func(_ []string, stdin io.Reader, _, _ io.Writer) int {
			tr := tar.NewReader(stdin)
			for {
				_, err := tr.Next()
				if err != nil {
					took <- err
					return 1
				}
				if _, err := io.Copy(io.Discard, tr); err != nil {
					took <- err
					return 1
				}
			}
		}
		_, err := e.runner(Options{}).Run(t.Context(), command.Command{Argv: []string{"ctr"}, Stdin: func(_ context.Context, w io.Writer) error {
			_, err := w.Write(whole.Bytes()[:at])
			return errors.Join(err, broken)
		}})
		require.ErrorIs(t, err, broken, at)
		require.NotErrorIs(t, <-took, io.EOF, "broken at byte %d", at)
	}
}

// The connection breaks, and the program is not known to have ended.
func TestBrokenConnection(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	e.forgets = true
	e.program = func(_ []string, _ io.Reader, stdout, _ io.Writer) int {
		_, err := stdout.(*stream).w.Write([]byte{1, 0, 0, 0, 0, 0, 0, 9, 'h', 'a', 'l', 'f'})
		require.NoError(t, err)
		return 0
	}
	_, err := e.runner(Options{}).Run(t.Context(), command.Command{Argv: []string{"ctr"}})
	require.EqualError(t, err, "the connection to the node broke")
}

func TestNodeThatStalls(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	over := make(chan struct{})
	e.program = func([]string, io.Reader, io.Writer, io.Writer) int {
		<-over
		return 0
	}
	defer close(over)
	_, err := e.runner(Options{Stall: 50 * time.Millisecond}).Run(t.Context(), command.Command{Argv: []string{"ctr"}, Stdin: func(_ context.Context, w io.Writer) error {
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return err
			}
		}
	}})
	require.EqualError(t, err, "it took no data for 50ms: it hangs, or its disk does")
}

func TestCancelledProgram(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	over := make(chan struct{})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	e.program = func([]string, io.Reader, io.Writer, io.Writer) int {
		cancel(why)
		<-over
		return 0
	}
	defer close(over)
	_, err := e.runner(Options{}).Run(ctx, command.Command{Argv: []string{"ctr"}})
	require.ErrorIs(t, err, why)
}

func TestNodeThatCannotBeSpokenTo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given func(e *engine)
		want  string
	}{
		"removed": {func(e *engine) {
			e.refuse = func(w http.ResponseWriter) {
				reply(w, http.StatusNotFound, map[string]string{"message": "No such container: node"})
			}
		}, "it is gone: No such container: node"},
		"stopped": {func(e *engine) {
			e.refuse = func(w http.ResponseWriter) {
				reply(w, http.StatusConflict, map[string]string{"message": "Container node is not running"})
			}
		}, "it is gone: Container node is not running"},
		"an engine that fails": {func(e *engine) {
			e.refuse = func(w http.ResponseWriter) {
				reply(w, http.StatusInternalServerError, map[string]string{"message": "bad\nluck"})
			}
		}, "running a program in it: bad luck"},
		"no such program": {func(e *engine) {
			e.program = func(_ []string, _ io.Reader, stdout, _ io.Writer) int {
				fmt.Fprint(stdout, `OCI runtime exec failed: exec failed: "ctr": executable file not found in $PATH: unknown`)
				return 126
			}
		}, "program not found: ctr"},
		"killed": {func(e *engine) {
			e.program = func([]string, io.Reader, io.Writer, io.Writer) int { return 137 }
		}, "ctr was killed there: the node went away, or ran out of memory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t)
			test.given(e)
			_, err := e.runner(Options{}).Run(t.Context(), command.Command{Argv: []string{"ctr"}})
			require.EqualError(t, err, test.want)
		})
	}
}

// The node's own snapshotter is used, and what it says of a failure is said with its name.
func TestLoad(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	var mu sync.Mutex
	var calls []string
	e.program = func(argv []string, stdin io.Reader, stdout, stderr io.Writer) int {
		call := strings.TrimPrefix(strings.Join(argv, " "), "ctr --namespace k8s.io ")
		mu.Lock()
		calls = append(calls, call)
		mu.Unlock()
		switch {
		case call == "containerd config dump":
			fmt.Fprint(stdout, "version = 3\n[plugins.'io.containerd.cri.v1.images']\nsnapshotter = 'native'\n")
		case call == "plugins ls --detailed":
			fmt.Fprint(stdout, "Type: io.containerd.snapshotter.v1\nID: native\nPlatforms: linux/amd64\n")
		case call == "images import --help":
			fmt.Fprint(stdout, "--local  Run import locally")
		case strings.HasPrefix(call, "images check"):
			fmt.Fprint(stdout, "REF TYPE DIGEST STATUS SIZE UNPACKED\n")
		case strings.HasPrefix(call, "images import"):
			_, err := io.Copy(io.Discard, stdin)
			require.NoError(t, err)
			fmt.Fprint(stderr, "ctr: failed to extract layer: no space left on device\n")
			return 1
		}
		return 0
	}
	k := e.target(Options{})
	p, err := k.Platform(t.Context())
	require.NoError(t, err)
	require.Equal(t, platform.Platform{OS: "linux", Architecture: "amd64"}, p)
	_, err = k.Load(t.Context(), imagetest.New(t, imagetest.Options{}))
	require.EqualError(t, err, "node kind-control-plane: ctr images import: failed to extract layer: no space left on device "+
		"(free space where containerd keeps its data: it holds the archive's content and the unpacked image)")
	require.Contains(t, calls, "images import --local --snapshotter native -")
	require.Contains(t, calls[len(calls)-1], "images rm ")

	_, err = k.Only([]string{"worker"}).Load(t.Context(), imagetest.New(t, imagetest.Options{}))
	require.ErrorContains(t, err, "nodes=worker: no node has that name or role")
	_, err = e.target(Options{Getenv: func(name string) string { return map[string]string{"KIND_CLUSTER": "other"}[name] }}).Platform(t.Context())
	require.ErrorIs(t, err, target.ErrUnavailable)
	require.ErrorContains(t, err, `there is no kind cluster "other"`)
}
