package rerun_test

import (
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/rerun"
	"github.com/pullonce/pullonce/internal/retry"
)

// played plays a program: one end for each attempt, the last for all that follow.
type played []command.Exit

func (p *played) Attach(_ context.Context, _ []string, a command.Attachment) (command.Exit, error) {
	exit := (*p)[0]
	if len(*p) > 1 {
		*p = (*p)[1:]
	}
	_, err := io.WriteString(a.Stdout, exit.Tail)
	return exit, err
}

func exits(codes ...int) *played {
	p := &played{}
	for _, code := range codes {
		*p = append(*p, command.Exit{Code: code})
	}
	return p
}

func said(code int, text string) *played { return &played{{Code: code, Tail: text}, {}} }

// options are those of a command whose waits are 5, 10, 20, 30, 30 … s.
func options(rules rerun.Rules) rerun.Options {
	return rerun.Options{
		Argv: []string{"tool", "arg"}, Stdout: io.Discard, Stderr: io.Discard, Rules: rules,
		Policy: retry.Policy{Jitter: func() float64 { return 1 }},
	}
}

func TestWhatIsTriedAgain(t *testing.T) {
	t.Parallel()
	pattern := []*regexp.Regexp{regexp.MustCompile(`(?m)^rate limit`)}
	for title, c := range map[string]struct {
		rules    rerun.Rules
		program  *played
		code     int
		attempts int
		elapsed  time.Duration
	}{
		"success":                           {program: exits(0), attempts: 1},
		"every failure":                     {program: exits(1, 77, 0), attempts: 3, elapsed: 15 * time.Second},
		"until the time is up":              {program: exits(9), code: 9, attempts: 23, elapsed: 10 * time.Minute},
		"a code that stops":                 {rules: rerun.Rules{StopCodes: []int{2}}, program: exits(1, 2), code: 2, attempts: 2, elapsed: 5 * time.Second},
		"only one of these codes":           {rules: rerun.Rules{Codes: []int{75}}, program: exits(75, 1), code: 1, attempts: 2, elapsed: 5 * time.Second},
		"output that matches":               {rules: rerun.Rules{Output: pattern}, program: said(1, "x\nrate limit: wait"), attempts: 2, elapsed: 5 * time.Second},
		"output that does not":              {rules: rerun.Rules{Output: pattern}, program: said(1, "no rate limit"), code: 1, attempts: 1},
		"either will do":                    {rules: rerun.Rules{Codes: []int{75}, Output: pattern}, program: said(75, ""), attempts: 2, elapsed: 5 * time.Second},
		"what stops comes first":            {rules: rerun.Rules{Codes: []int{1}, StopOutput: pattern}, program: said(1, "rate limit"), code: 1, attempts: 1},
		"a program that a signal has ended": {program: exits(137, 0), attempts: 2, elapsed: 5 * time.Second},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				code, attempts, err := rerun.Run(t.Context(), c.program, options(c.rules))
				require.Equal(t, c.code, code)
				require.Equal(t, c.attempts, attempts)
				require.Equal(t, c.code != 0, err != nil)
				require.Equal(t, c.elapsed, time.Since(began))
			})
		})
	}
}

func TestTheErrorHasTheLastLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := options(rerun.Rules{StopCodes: []int{3}})
		_, _, err := rerun.Run(t.Context(), said(3, "one\n\ntwo\nthree\nfour\n\x1b[31mfive\n  six  \n"), o)
		require.EqualError(t, err, "tool arg: gave up after 1 attempt in 0s (permanent: another try can't help): exit code 3: two / three / four / \uFFFD[31mfive / six")
	})
}

func TestAProgramThatIsNotThere(t *testing.T) {
	t.Parallel()
	o := options(rerun.Rules{})
	for name, want := range map[string]int{"/no/such/program": rerun.CodeNotFound, "/": rerun.CodeCannotRun} {
		o.Argv = []string{name}
		code, attempts, err := rerun.Run(t.Context(), command.Host{}, o)
		require.Equal(t, want, code)
		require.Equal(t, 1, attempts)
		require.ErrorContains(t, err, name)
	}
}

func TestAnAttemptThatTakesTooLong(t *testing.T) {
	t.Parallel()
	o := options(rerun.Rules{})
	o.Argv, o.AttemptTimeout = []string{"sh", "-c", "echo begun; sleep 1000"}, 200*time.Millisecond
	o.Policy.Timeout = time.Millisecond
	code, attempts, err := rerun.Run(t.Context(), command.Host{}, o)
	require.Equal(t, rerun.CodeTimedOut, code)
	require.Equal(t, 1, attempts)
	require.ErrorContains(t, err, "it took longer than 200ms: begun")
}

// TestEveryAttemptReadsTheSame shows attempts that are real: a file counts them.
func TestEveryAttemptReadsTheSame(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	o := options(rerun.Rules{})
	o.Argv = []string{"sh", "-c", `cat; test -e "$1" || { touch "$1"; exit 7; }`, "sh", t.TempDir() + "/tried"}
	o.Stdin, o.Stdout, o.Policy.First = []byte("in\n"), &out, time.Millisecond
	code, attempts, err := rerun.Run(t.Context(), command.Host{}, o)
	require.NoError(t, err)
	require.Zero(t, code)
	require.Equal(t, 2, attempts)
	require.Equal(t, "in\nin\n", out.String())
}

func TestAnInterruptionEndsTheAttemptsWithTheCommandsOwnCode(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	signals := make(chan os.Signal, 1)
	o := options(rerun.Rules{})
	o.Signals = signals
	o.Argv = []string{"sh", "-c", `trap "echo bye; exit 42" INT; echo ready; while :; do sleep 0.01; done`}
	reader, writer := io.Pipe()
	o.Stdout = writer
	go func() {
		line := make([]byte, len("ready\n"))
		if _, err := io.ReadFull(reader, line); err != nil {
			t.Error(err)
		}
		signals <- os.Interrupt
		cancel(errors.New("interrupt signal received"))
		_, _ = io.Copy(io.Discard, reader)
	}()
	code, attempts, err := rerun.Run(ctx, command.Host{}, o)
	require.NoError(t, writer.Close())
	require.Equal(t, 42, code)
	require.Equal(t, 1, attempts)
	require.ErrorContains(t, err, "interrupt signal received; before that: exit code 42: ready / bye")
}
