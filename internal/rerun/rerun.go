// Package rerun owns the trying again of a command that fails: what its failures are worth, by exit code and output, what
// one attempt may take, and how the last one reads. It does not know what the command is for.
package rerun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/oneline"
	"github.com/pullonce/pullonce/internal/retry"
)

// The exit codes of a command that did not come to one of its own, as env(1) and timeout(1) have them.
const (
	CodeTimedOut  = 124 // the attempt took too long
	CodeCannotRun = 126 // the program can't be started
	CodeNotFound  = 127 // there is no such program
)

// Attacher runs a program as a part of this process.
type Attacher interface {
	// Attach is that of command.Host.
	Attach(ctx context.Context, argv []string, a command.Attachment) (command.Exit, error)
}

// Options of Run.
type Options struct {
	// Argv are the program and its arguments.
	Argv []string
	// Stdin is what each attempt reads anew; nil is nothing.
	Stdin []byte
	// Stdout and Stderr get what every attempt writes, as it comes.
	Stdout, Stderr io.Writer
	// Signals are passed on to the attempt that runs; nil has none.
	Signals <-chan os.Signal
	// AttemptTimeout is how long one attempt may take; 0 is as long as it likes.
	AttemptTimeout time.Duration
	// Rules say which failures are worth another attempt; the zero value takes all.
	Rules Rules
	// Policy is the schedule.
	Policy retry.Policy
}

// Rules say what a failure is worth. What stops comes first.
type Rules struct {
	// StopCodes and StopOutput are exit codes and patterns of output after which no attempt follows.
	StopCodes  []int
	StopOutput []*regexp.Regexp
	// Codes and Output are those after which one follows. Where there are any, none follows after another failure.
	Codes  []int
	Output []*regexp.Regexp
}

// class is what a failure is worth.
func (r Rules) class(exit command.Exit, timedOut bool) retry.Class {
	switch {
	case slices.Contains(r.StopCodes, exit.Code), matchesAny(r.StopOutput, exit.Tail):
		return retry.Permanent
	case timedOut, len(r.Codes)+len(r.Output) == 0:
		return retry.Transient
	case slices.Contains(r.Codes, exit.Code), matchesAny(r.Output, exit.Tail):
		return retry.Transient
	default:
		return retry.Permanent
	}
}

func matchesAny(patterns []*regexp.Regexp, text string) bool {
	return slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(text) })
}

// Run runs a command until it succeeds or no attempt follows. It gives the exit code of the last attempt and the number of
// attempts; the error is a *retry.Error that says in one line what went wrong. Whatever ends Run, nothing of the command
// runs on.
func Run(ctx context.Context, host Attacher, o Options) (code, attempts int, err error) {
	attempts, err = retry.Do(ctx, o.Policy, func(ctx context.Context, _ int) error {
		var failed error
		code, failed = o.attempt(ctx, host)
		return failed
	})
	if err != nil {
		return code, attempts, fmt.Errorf("%s: %w", command.Command{Argv: o.Argv}, err)
	}
	return code, attempts, nil
}

// errTooLong is why an attempt was ended.
var errTooLong = errors.New("the attempt took too long")

func (o Options) attempt(parent context.Context, host Attacher) (int, error) {
	ctx, cancel := parent, context.CancelFunc(func() {})
	if o.AttemptTimeout > 0 {
		ctx, cancel = context.WithTimeoutCause(parent, o.AttemptTimeout, errTooLong)
	}
	defer cancel()
	attached := command.Attachment{Stdout: o.Stdout, Stderr: o.Stderr, Signals: o.Signals}
	if o.Stdin != nil {
		attached.Stdin = bytes.NewReader(o.Stdin)
	}
	exit, err := host.Attach(ctx, o.Argv, attached)
	timedOut := parent.Err() == nil && errors.Is(context.Cause(ctx), errTooLong)
	switch {
	case errors.Is(err, command.ErrNotFound):
		return CodeNotFound, err
	case err != nil:
		return CodeCannotRun, err
	case exit.Code == 0:
		return 0, nil
	case timedOut:
		exit.Code = CodeTimedOut
	}
	f := &failure{exit: exit, class: o.Rules.class(exit, timedOut)}
	if timedOut {
		f.limit = o.AttemptTimeout
	}
	return exit.Code, f
}

// failure is an attempt that failed.
type failure struct {
	exit  command.Exit
	limit time.Duration // which it exceeded, or 0
	class retry.Class
}

var _ retry.Classified = (*failure)(nil)

// Error is how the attempt ended, and its last lines.
func (f *failure) Error() string {
	text := fmt.Sprintf("exit code %d", f.exit.Code)
	if f.limit > 0 {
		text = fmt.Sprintf("it took longer than %s", f.limit)
	}
	if last := lastLines(f.exit.Tail); last != "" {
		text += ": " + last
	}
	return text
}

// RetryClass implements retry.Classified.
func (f *failure) RetryClass() retry.Class { return f.class }

// RetryAfter implements retry.Classified.
func (f *failure) RetryAfter() time.Duration { return 0 }

// maxLines is how many of the last lines of output an error has.
const maxLines = 5

// lastLines are the last lines of output that say something, in one.
func lastLines(tail string) string {
	var lines []string
	for line := range strings.Lines(tail) {
		if line = oneline.Of(line); line != "" {
			lines = append(lines, line)
		}
	}
	return oneline.Of(strings.Join(lines[max(0, len(lines)-maxLines):], " / "))
}
