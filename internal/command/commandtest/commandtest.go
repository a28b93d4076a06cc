// Package commandtest is a command.Runner for tests: it runs nothing, records every command, and fails the test on one
// that it was not told of.
package commandtest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pullonce/pullonce/internal/command"
)

// Program plays a program: it gets the arguments and what it was fed, and says what the program would.
type Program func(args []string, stdin []byte) (command.Output, error)

// Runner is the fake. Safe for concurrent use.
type Runner struct {
	t        testing.TB
	mu       sync.Mutex
	programs map[string]Program
	calls    []string
}

var _ command.Runner = (*Runner)(nil)

// New is a runner that knows no program.
func New(t testing.TB) *Runner {
	return &Runner{t: t, programs: map[string]Program{}}
}

// On has a command line that begins with prefix, in whole words, played by p; the longest prefix wins. p gets what
// follows the prefix.
func (r *Runner) On(prefix string, p Program) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.programs[prefix] = p
}

// Says is a program that writes text and succeeds.
func Says(stdout string) Program {
	return func([]string, []byte) (command.Output, error) { return command.Output{Stdout: stdout}, nil }
}

// Fails is a program that writes text to its standard error and ends with an exit code.
func Fails(code int, stderr string) Program {
	return func([]string, []byte) (command.Output, error) { return command.Output{}, Failure(code, stderr) }
}

// Failure is a program's error.
func Failure(code int, stderr string) error {
	return &command.Error{Output: command.Output{Stderr: stderr}, Code: code}
}

// Calls are the command lines since the last time.
func (r *Runner) Calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// Run implements command.Runner. A program that was not told of fails the test; one whose input breaks does not run.
func (r *Runner) Run(ctx context.Context, c command.Command) (command.Output, error) {
	if err := ctx.Err(); err != nil {
		return command.Output{}, context.Cause(ctx)
	}
	program, args := r.find(c.Argv)
	if program == nil {
		r.t.Errorf("unexpected command: %s", strings.Join(c.Argv, " "))
		return command.Output{}, fmt.Errorf("%w: %s", command.ErrNotFound, c.Argv[0])
	}
	var stdin bytes.Buffer
	if c.Stdin != nil {
		if err := c.Stdin(ctx, &stdin); err != nil {
			return command.Output{}, err
		}
	}
	out, err := program(args, stdin.Bytes())
	if failed, ok := err.(*command.Error); ok { //nolint:errorlint // a program's own, never wrapped
		failed.Command = c
	}
	return out, err
}

// find records a command line and gives the program that plays it.
func (r *Runner) find(argv []string) (Program, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, strings.Join(argv, " "))
	for n := len(argv); n > 0; n-- {
		if p, ok := r.programs[strings.Join(argv[:n], " ")]; ok {
			return p, argv[n:]
		}
	}
	return nil, nil
}
