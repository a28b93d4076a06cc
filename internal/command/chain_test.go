//go:build unix

package command_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/command"
)

// fed is c with input.
func fed(c command.Command, input string) command.Command {
	c.Stdin = func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, input)
		return err
	}
	return c
}

// withShell is a Together that knows that there is a shell. It is for bubbles.
func withShell(t *testing.T, host *counted) *command.Together {
	t.Helper()
	together := &command.Together{Runner: host}
	askAll(t, together, []string{"true"}, []string{"true"})
	require.Equal(t, []string{"sh"}, host.ran)
	host.ran = nil
	return together
}

func TestChainIsOneStart(t *testing.T) {
	asking(t, func(t *testing.T) {
		host := &counted{}
		together := withShell(t, host)
		results := command.RunChain(t.Context(), together, []command.Command{
			fed(sh("cat; echo warned >&2"), "it's\nfed"),
			{Argv: []string{"printf", "%s|", "it's $HOME", ""}},
			sh("cat; printf end"),
		})
		require.Equal(t, []string{"sh"}, host.ran)
		require.Equal(t, []command.Result{
			{Output: command.Output{Stdout: "it's\nfed", Stderr: "warned\n"}},
			{Output: command.Output{Stdout: "it's $HOME||"}},
			{Output: command.Output{Stdout: "end"}},
		}, results)
	})
}

func TestChainEndsWithTheFirstFailure(t *testing.T) {
	t.Parallel()
	for name, runner := range map[string]func(t *testing.T) command.Runner{
		"one start": func(t *testing.T) command.Runner { return withShell(t, &counted{}) },
		"one start, limited": func(t *testing.T) command.Runner {
			return command.Limited{Runner: withShell(t, &counted{}), Limits: command.Limits{Call: time.Minute}}
		},
		"no shell known":                 func(*testing.T) command.Runner { return &command.Together{Runner: command.Host{}} },
		"a runner that starts each":      func(*testing.T) command.Runner { return command.Host{} },
		"a runner that starts each, too": func(*testing.T) command.Runner { return command.Limited{Runner: command.Host{}} },
	} {
		t.Run(name, func(t *testing.T) {
			asking(t, func(t *testing.T) {
				failing := sh("echo out; echo why >&2; exit 3")
				results := command.RunChain(t.Context(), runner(t), []command.Command{sh("echo first"), failing, sh("echo never")})
				require.Len(t, results, 2)
				require.Equal(t, command.Result{Output: command.Output{Stdout: "first\n"}}, results[0])
				failed, ok := errors.AsType[*command.Error](results[1].Err)
				require.True(t, ok, "%v", results[1].Err)
				require.Equal(t, failing.Argv, failed.Command.Argv)
				require.Equal(t, 3, failed.Code)
				require.Equal(t, command.Output{Stdout: "out\n", Stderr: "why\n"}, failed.Output)
			})
		})
	}
}

func TestProgramThatIsKilledInAChain(t *testing.T) {
	asking(t, func(t *testing.T) {
		results := command.RunChain(t.Context(), withShell(t, &counted{}), []command.Command{sh("kill -9 $$"), sh("echo never")})
		require.Len(t, results, 1)
		failed, ok := errors.AsType[*command.Error](results[0].Err)
		require.True(t, ok, "%v", results[0].Err)
		require.Equal(t, -1, failed.Code)
		require.Equal(t, "killed", failed.Reason())
	})
}

// Of what programs say beside their answers a part may be lost; their answers are not.
func TestChainThatSaysTooMuch(t *testing.T) {
	asking(t, func(t *testing.T) {
		results := command.RunChain(t.Context(), withShell(t, &counted{}), []command.Command{
			sh("echo one; yes noise | head -c 2000000 >&2"), sh("echo two; echo why >&2; exit 4"),
		})
		require.Len(t, results, 2)
		require.NoError(t, results[0].Err)
		require.Equal(t, "one\n", results[0].Output.Stdout)
		failed, ok := errors.AsType[*command.Error](results[1].Err)
		require.True(t, ok, "%v", results[1].Err)
		require.Equal(t, "two\n", failed.Output.Stdout)
		require.Contains(t, failed.Output.Stderr, "why\n")
	})
}

// The programs of a chain may change things: where a shell does not do, none is run a second time.
func TestChainIsNotRunAgain(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	for name, test := range map[string]struct {
		shell func() (command.Output, error)
		want  string
	}{
		"nobody is there":     {func() (command.Output, error) { return command.Output{}, refused }, "connection refused"},
		"it is killed":        {func() (command.Output, error) { return command.Output{}, &command.Error{Code: -1} }, "echo 0: killed"},
		"it says nothing":     {func() (command.Output, error) { return command.Output{}, nil }, "echo 0: the shell that ran it did not say how it ended"},
		"it says too little":  {func() (command.Output, error) { return command.Output{Stdout: "hello"}, nil }, "echo 0: the shell that ran it did not say how it ended"},
		"its mark is no mark": {func() (command.Output, error) { return command.Output{Stdout: "0\n0\n0\n"}, nil }, "echo 0: the shell that ran it did not say how it ended"},
	} {
		t.Run(name, func(t *testing.T) {
			asking(t, func(t *testing.T) {
				host := &counted{}
				together := withShell(t, host)
				host.instead = func(context.Context, command.Command) (command.Output, error) { return test.shell() }
				results := command.RunChain(t.Context(), together, []command.Command{{Argv: []string{"echo", "0"}}, {Argv: []string{"echo", "1"}}})
				require.Len(t, results, 1)
				require.EqualError(t, results[0].Err, test.want)
				require.Len(t, host.ran, 1)
			})
		})
	}
}

// A chain that stops without a failure has not come to its end.
func TestChainThatStopsEarly(t *testing.T) {
	asking(t, func(t *testing.T) {
		host := &counted{}
		together := withShell(t, host)
		host.instead = func(ctx context.Context, c command.Command) (command.Output, error) {
			lines := strings.SplitAfterN(c.Argv[2], "\n", 3) // of which the first program is the second
			return command.Host{}.Run(ctx, sh(lines[0]+lines[1]))
		}
		results := command.RunChain(t.Context(), together, []command.Command{sh("true"), sh("true")})
		require.Len(t, results, 1)
		require.ErrorContains(t, results[0].Err, "did not say how it ended")
	})
}

func TestChainIsLimitedAsAWhole(t *testing.T) {
	asking(t, func(t *testing.T) {
		host := &counted{}
		together := withShell(t, host)
		host.instead = func(ctx context.Context, c command.Command) (command.Output, error) {
			if c.Stdin != nil {
				if err := c.Stdin(ctx, io.Discard); err != nil {
					return command.Output{}, err
				}
			}
			<-ctx.Done()
			return command.Output{}, context.Cause(ctx)
		}
		limited := command.Limited{Runner: together, Limits: command.Limits{Call: time.Second, Quiet: time.Minute}}
		for want, first := range map[time.Duration]command.Command{2 * time.Second: sh("first"), time.Minute: fed(sh("first"), "input")} {
			started := time.Now()
			results := command.RunChain(t.Context(), limited, []command.Command{first, sh("second")})
			require.Equal(t, want, time.Since(started))
			require.Len(t, results, 1)
			hung, ok := errors.AsType[*command.Hung](results[0].Err)
			require.True(t, ok, "%v", results[0].Err)
			require.Equal(t, first.Argv, hung.Command.Argv)
		}
	})
}
