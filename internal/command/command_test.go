package command_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/command"
)

func sh(script string) command.Command {
	return command.Command{Argv: []string{"sh", "-c", script}}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	c := sh(`cat; echo "$WORD" >&2`)
	c.Env = []string{"WORD=err"}
	c.Stdin = func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, "out")
		return err
	}
	out, err := command.Host{}.Run(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, command.Output{Stdout: "out", Stderr: "err\n"}, out)
}

func TestFailureCarriesArgvAndOutput(t *testing.T) {
	t.Parallel()
	_, err := command.Host{}.Run(t.Context(), sh("echo first; echo bad luck >&2; exit 3"))
	failed, ok := errors.AsType[*command.Error](err)
	require.True(t, ok)
	require.Equal(t, 3, failed.Code)
	require.Equal(t, command.Output{Stdout: "first\n", Stderr: "bad luck\n"}, failed.Output)
	require.EqualError(t, err, "sh -c echo first; echo bad luck >&2; exit 3: exit code 3: bad luck")

	_, err = command.Host{}.Run(t.Context(), sh("kill -9 $$"))
	require.EqualError(t, err, "sh -c kill -9 $$: killed")
}

func TestProgramThatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"no-such-program-anywhere", "/no/such/program"} {
		_, err := command.Host{}.Run(t.Context(), command.Command{Argv: []string{name}})
		require.ErrorIs(t, err, command.ErrNotFound)
		require.ErrorContains(t, err, name)
	}
}

func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	flood := "head -c 5000000 /dev/zero | tr '\\0' x"
	out, err := command.Host{}.Run(t.Context(), sh(flood))
	require.ErrorIs(t, err, command.ErrOutput)
	require.Len(t, out.Stdout, command.MaxOutput)
	require.Less(t, len(err.Error()), 1000)

	out, err = command.Host{}.Run(t.Context(), sh("{ "+flood+"; echo end; } >&2"))
	require.NoError(t, err)
	require.Len(t, out.Stderr, command.MaxOutput)
	require.True(t, strings.HasSuffix(out.Stderr, "xend\n"))
}

// A program that reads less than there is decides itself whether that is a failure.
func TestProgramThatReadsNoMore(t *testing.T) {
	t.Parallel()
	for script, fails := range map[string]bool{"exit 0": false, "head -c 1 >/dev/null; exit 5": true} {
		c := sh(script)
		c.Stdin = func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, strings.Repeat("x", 1<<20))
			return err
		}
		_, err := command.Host{}.Run(t.Context(), c)
		require.Equal(t, fails, err != nil, "%s: %v", script, err)
	}
}

// A broken stream must not look like one that has ended.
func TestBrokenInputEndsTheProgram(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "took")
	c := command.Command{Argv: []string{"sh", "-c", `cat >/dev/null; echo done >"$1"`, "sh", file}}
	broken := errors.New("broken")
	c.Stdin = func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, "half")
		return errors.Join(err, broken)
	}
	_, err := command.Host{}.Run(t.Context(), c)
	require.ErrorIs(t, err, broken)
	require.NoFileExists(t, file)
}

// Whoever feeds the program is told of its end.
func TestFeedingEndsWithTheProgram(t *testing.T) {
	t.Parallel()
	c := sh("exit 7")
	c.Stdin = func(ctx context.Context, _ io.Writer) error {
		<-ctx.Done()
		return ctx.Err()
	}
	_, err := command.Host{}.Run(t.Context(), c)
	failed, ok := errors.AsType[*command.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, 7, failed.Code)
}

func TestCancelEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"polite":   `sleep 1000 & echo $! >"$1"; wait`,
		"stubborn": `trap "" TERM; sleep 1000 & echo $! >"$1"; while :; do wait; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("enough")
			var running errgroup.Group
			running.Go(func() error {
				_, err := command.Host{}.Run(ctx, command.Command{Argv: []string{"sh", "-c", script, "sh", file}})
				return err
			})
			require.Eventually(t, func() bool {
				data, err := os.ReadFile(file)
				return err == nil && strings.HasSuffix(string(data), "\n")
			}, 30*time.Second, 5*time.Millisecond)
			began := time.Now()
			cancel(why)
			require.ErrorIs(t, running.Wait(), why)
			require.Less(t, time.Since(began), 30*time.Second)
			pid, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Eventually(t, func() bool { return gone(strings.TrimSpace(string(pid))) }, 10*time.Second, 10*time.Millisecond)
		})
	}
}

// gone says whether a process has ended, reaped or not.
func gone(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}
