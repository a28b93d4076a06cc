//go:build unix

package command_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/command"
)

// counted is a runner that notes what it runs, and may do something else instead.
type counted struct {
	instead func(context.Context, command.Command) (command.Output, error) // nil is nothing else

	mu  sync.Mutex
	ran []string // the programs
}

func (c *counted) Run(ctx context.Context, cmd command.Command) (command.Output, error) {
	c.mu.Lock()
	c.ran = append(c.ran, cmd.Argv[0])
	c.mu.Unlock()
	if c.instead != nil {
		return c.instead(ctx, cmd)
	}
	return command.Host{}.Run(ctx, cmd)
}

// answer is what came of a program.
type answer struct {
	out command.Output
	err error
}

// asking has f ask in a bubble, whose time stands still while anybody does something else than wait: who asks at the same time
// there does so on the busiest machine, too.
func asking(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// askAll runs programs at the same time. It is for bubbles.
func askAll(t *testing.T, runner command.Runner, programs ...[]string) []answer {
	t.Helper()
	answers := make([]answer, len(programs))
	var asked sync.WaitGroup
	for i, argv := range programs {
		asked.Go(func() {
			answers[i].out, answers[i].err = runner.Run(t.Context(), command.Command{Argv: argv, Asks: true})
		})
	}
	asked.Wait()
	return answers
}

func TestProgramsThatAreAskedForTogetherShareAShell(t *testing.T) {
	asking(t, func(t *testing.T) {
		host := &counted{}
		const odd = "it's \"$HOME\" `x` \\ *\n\t%d %s"
		got := askAll(t, &command.Together{Runner: host},
			[]string{"printf", "%s|", odd, "", "x"},
			[]string{"sh", "-c", "echo out; echo err >&2; exit 3"},
			[]string{"sh", "-c", "printf 'no end of line'; printf 'a warning' >&2; cat"},
			[]string{"no-such-program-anywhere"},
			[]string{"sh", "-c", "kill -9 $$"},
			[]string{"true"},
			[]string{"sh", "-c", "echo own >&2; exit 127"},
		)
		require.ElementsMatch(t, []string{"sh", "no-such-program-anywhere", "sh"}, host.ran)
		require.Equal(t, answer{out: command.Output{Stdout: odd + "||x|"}}, got[0])

		failed, ok := errors.AsType[*command.Error](got[1].err)
		require.True(t, ok, "%v", got[1].err)
		require.Equal(t, 3, failed.Code)
		require.Equal(t, command.Output{Stdout: "out\n", Stderr: "err\n"}, failed.Output)
		require.EqualError(t, got[1].err, "sh -c echo out; echo err >&2; exit 3: exit code 3: err")

		require.Equal(t, answer{out: command.Output{Stdout: "no end of line", Stderr: "a warning"}}, got[2], "and nothing to read")
		require.ErrorIs(t, got[3].err, command.ErrNotFound)
		require.ErrorContains(t, got[3].err, "no-such-program-anywhere")
		failed, ok = errors.AsType[*command.Error](got[4].err)
		require.True(t, ok, "%v", got[4].err)
		require.Equal(t, 128+9, failed.Code)
		require.Equal(t, answer{}, got[5])
		require.EqualError(t, got[6].err, "sh -c echo own >&2; exit 127: exit code 127: own")
	})
}

func TestProgramsThatComeOneByOneAreRunAlone(t *testing.T) {
	t.Parallel()
	host := &counted{}
	together := &command.Together{Runner: host}
	for range 2 {
		out, err := together.Run(t.Context(), command.Command{Argv: []string{"echo", "x"}, Asks: true})
		require.NoError(t, err)
		require.Equal(t, "x\n", out.Stdout)
	}
	require.Equal(t, []string{"echo", "echo"}, host.ran)
}

// What is fed, has an environment of its own, or changes something, is no shell's business.
func TestProgramsThatAreFedAreRunAlone(t *testing.T) {
	t.Parallel()
	host := &counted{}
	together := &command.Together{Runner: host}
	var asked sync.WaitGroup
	for range 3 {
		asked.Go(func() {
			out, err := together.Run(t.Context(), command.Command{Argv: []string{"cat"}, Asks: true, Stdin: func(_ context.Context, w io.Writer) error {
				_, err := io.WriteString(w, "fed")
				return err
			}})
			if err != nil || out.Stdout != "fed" {
				t.Errorf("%v, %q", err, out.Stdout)
			}
			out, err = together.Run(t.Context(), command.Command{Argv: []string{"sh", "-c", "echo $OWN"}, Asks: true, Env: []string{"OWN=mine"}})
			if err != nil || out.Stdout != "mine\n" {
				t.Errorf("%v, %q", err, out.Stdout)
			}
			if _, err = together.Run(t.Context(), command.Command{Argv: []string{"true"}}); err != nil {
				t.Error(err)
			}
		})
	}
	asked.Wait()
	require.Len(t, host.ran, 9)
}

// Where a shell does not do, each program is run by itself.
func TestWithoutAShellEachProgramIsRunAlone(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	for name, test := range map[string]struct {
		shell func(context.Context, command.Command) (command.Output, error)
		want  []string // of two programs, twice
		err   error
	}{
		"there is none": {
			func(context.Context, command.Command) (command.Output, error) {
				return command.Output{}, command.ErrNotFound
			},
			[]string{"sh", "echo", "echo", "echo", "echo"}, nil,
		},
		"it fails": {
			func(_ context.Context, c command.Command) (command.Output, error) {
				return command.Output{}, &command.Error{Command: c, Code: 1}
			},
			[]string{"sh", "echo", "echo", "sh", "echo", "echo"}, nil,
		},
		"it says something else": {
			func(context.Context, command.Command) (command.Output, error) {
				return command.Output{Stdout: "hello"}, nil
			},
			[]string{"sh", "echo", "echo", "sh", "echo", "echo"}, nil,
		},
		"it stops early": {
			func(ctx context.Context, c command.Command) (command.Output, error) {
				lines := strings.SplitAfterN(c.Argv[2], "\n", 3) // of which the first program is the second
				return command.Host{}.Run(ctx, command.Command{Argv: []string{"sh", "-c", lines[0] + lines[1]}})
			},
			[]string{"sh", "echo", "echo", "sh", "echo", "echo"}, nil,
		},
		"there is nobody": {
			func(context.Context, command.Command) (command.Output, error) { return command.Output{}, refused },
			[]string{"sh", "sh"}, refused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			asking(t, func(t *testing.T) {
				host := &counted{instead: func(ctx context.Context, c command.Command) (command.Output, error) {
					if c.Argv[0] == "sh" {
						return test.shell(ctx, c)
					}
					return command.Host{}.Run(ctx, c)
				}}
				together := &command.Together{Runner: host}
				for range 2 {
					for i, got := range askAll(t, together, []string{"echo", "0"}, []string{"echo", "1"}) {
						require.ErrorIs(t, got.err, test.err)
						if test.err == nil {
							require.Equal(t, fmt.Sprintln(i), got.out.Stdout)
						}
					}
				}
				require.Equal(t, test.want, host.ran)
			})
		})
	}
}

func TestAScriptThatIsTooLongIsNotTried(t *testing.T) {
	asking(t, func(t *testing.T) {
		host := &counted{}
		long := strings.Repeat("x", 40<<10)
		for _, got := range askAll(t, &command.Together{Runner: host}, []string{"printf", long}, []string{"printf", long}) {
			require.Equal(t, answer{out: command.Output{Stdout: long}}, got)
		}
		require.Equal(t, []string{"printf", "printf"}, host.ran)
	})
}

// Who stops waiting does not take the answer from the others; when nobody waits, the shell is ended.
func TestTheShellEndsWithTheLastWhoWaits(t *testing.T) {
	asking(t, func(t *testing.T) {
		ended := make(chan error, 1)
		running := make(chan struct{})
		host := &counted{instead: func(ctx context.Context, _ command.Command) (command.Output, error) {
			close(running)
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return command.Output{}, context.Cause(ctx)
		}}
		together := &command.Together{Runner: host}
		why := []error{errors.New("first"), errors.New("second")}
		cancels := make([]context.CancelCauseFunc, 2)
		got := make(chan error, 2)
		for i := range 2 {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancels[i] = cancel
			go func() {
				_, err := together.Run(ctx, command.Command{Argv: []string{"true"}, Asks: true})
				got <- err
			}()
		}
		<-running
		cancels[0](why[0])
		require.ErrorIs(t, <-got, why[0])
		synctest.Wait()
		require.Empty(t, ended, "somebody still waits")
		cancels[1](why[1])
		require.ErrorIs(t, <-got, why[1])
		require.ErrorIs(t, <-ended, why[1])
	})
}

func TestWhatAShellSaysFirstIsNoAnswer(t *testing.T) {
	asking(t, func(t *testing.T) {
		host := &counted{instead: func(ctx context.Context, c command.Command) (command.Output, error) {
			c.Argv = []string{"sh", "-c", "echo welcome; echo careful >&2\n" + c.Argv[2]}
			return command.Host{}.Run(ctx, c)
		}}
		for i, got := range askAll(t, &command.Together{Runner: host}, []string{"echo", "0"}, []string{"echo", "1"}) {
			require.Equal(t, answer{out: command.Output{Stdout: fmt.Sprintln(i)}}, got)
		}
	})
}
