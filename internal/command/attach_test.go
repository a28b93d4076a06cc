//go:build unix

package command_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/command"
)

// attach runs a script attached and gives how it ended and what it wrote.
func attach(t *testing.T, script string, args ...string) (exit command.Exit, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	exit, failed := command.Host{}.Attach(t.Context(), append([]string{"sh", "-c", script, "sh"}, args...), command.Attachment{
		Stdin: strings.NewReader("in"), Stdout: &out, Stderr: &err,
	})
	require.NoError(t, failed)
	return exit, out.String(), err.String()
}

func TestAttachedOutputIsOurs(t *testing.T) {
	t.Parallel()
	exit, stdout, stderr := attach(t, `cat; echo; echo err >&2; exit 5`)
	require.Equal(t, "in\n", stdout)
	require.Equal(t, "err\n", stderr)
	require.Equal(t, 5, exit.Code)
	require.Len(t, exit.Tail, len(stdout)+len(stderr), "both, in the order in which they came")
}

func TestAttachedOutputMayBeLong(t *testing.T) {
	t.Parallel()
	exit, stdout, _ := attach(t, `head -c 3000000 /dev/zero | tr '\0' x; echo end`)
	require.Zero(t, exit.Code)
	require.Len(t, stdout, 3000000+len("end\n"))
	require.Len(t, exit.Tail, command.MaxOutput)
	require.True(t, strings.HasSuffix(exit.Tail, "xend\n"))
}

func TestExitCodesAreAShells(t *testing.T) {
	t.Parallel()
	exit, _, _ := attach(t, `kill -9 $$`)
	require.Equal(t, 128+9, exit.Code)
}

func TestNothingToAttach(t *testing.T) {
	t.Parallel()
	_, err := command.Host{}.Attach(t.Context(), []string{"no-such-program-anywhere"}, command.Attachment{Stdout: io.Discard, Stderr: io.Discard})
	require.ErrorIs(t, err, command.ErrNotFound)
}

// TestNothingIsLeftRunning has a program leave something behind that keeps its output open.
func TestNothingIsLeftRunning(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"output open":   `sleep 1000 & echo $! >"$1"`,
		"output closed": `sleep 1000 >/dev/null 2>&1 & echo $! >"$1"; exit 3`,
		"deaf":          `sh -c 'trap "" TERM INT; while :; do sleep 0.05; done' >/dev/null 2>&1 & echo $! >"$1"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			began := time.Now()
			attach(t, script, file)
			require.Less(t, time.Since(began), 30*time.Second)
			requireGone(t, file)
		})
	}
}

func requireGone(t *testing.T, file string) {
	t.Helper()
	pid, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return gone(strings.TrimSpace(string(pid))) }, 10*time.Second, 10*time.Millisecond)
}

// TestSignalsArePassedOn has a program that waits for a signal, which it is sent when it says that it is ready.
func TestSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		signal syscall.Signal
		ends   bool // the context, along with it
		code   int
		said   string
	}{
		"user signal":            {`trap "echo got; exit 4" USR1`, syscall.SIGUSR1, false, 4, "got\n"},
		"interrupt, and the end": {`trap "echo int; exit 5" INT; trap "echo term; exit 6" TERM`, syscall.SIGINT, true, 5, "int\n"},
		"the end alone":          {`trap "echo term; exit 6" TERM`, 0, true, 6, "term\n"},
		"deaf":                   {`trap "" TERM INT`, syscall.SIGINT, true, 128 + 9, "ready\n"},
		"untrapped":              {``, syscall.SIGTERM, false, 128 + 15, "ready\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			signals := make(chan os.Signal, 1)
			exit, err := command.Host{}.Attach(ctx, []string{"sh", "-c", c.script + "\necho ready; while :; do sleep 0.01; done"}, command.Attachment{
				Signals: signals, Stderr: io.Discard,
				Stdout: writerFunc(func(p []byte) (int, error) {
					if string(p) == "ready\n" {
						if c.signal != 0 {
							signals <- c.signal
						}
						if c.ends {
							cancel()
						}
					}
					return len(p), nil
				}),
			})
			require.NoError(t, err)
			require.Equal(t, c.code, exit.Code)
			require.Contains(t, exit.Tail, c.said) // the shell may tell of its children, too
		})
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
