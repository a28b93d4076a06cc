package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// gatherTime is how long the first of several programs waits for the others.
	gatherTime = time.Millisecond
	// maxScript bounds what a shell is given to run, in bytes. Linux takes 128 KiB as one argument (execve(2)).
	maxScript = 64 << 10
	// notFound is the exit code that a shell has for a program that is not there (POSIX.1-2024, XCU 2.8.2), and that any may have.
	notFound = 127
)

// Together is a Runner for where a program's start is dear: those that only ask, and are run at the same time, are run by one
// shell, one after the other, and so are those of a chain. Where there is no shell, or it does not do, each is run by itself.
// Safe for concurrent use; it must not be copied once it is used.
type Together struct {
	Runner Runner

	mu      sync.Mutex
	waiting []*question
	alone   atomic.Bool // there is no shell
	shell   atomic.Bool // there is one: it has answered
}

var _ Runner = (*Together)(nil)

// question is a program that somebody waits for.
type question struct {
	ctx     context.Context // of whoever waits
	command Command
	answer  chan struct{} // closed when the rest is set
	alone   bool          // there is no answer: whoever waits is to run it
	out     Output
	err     error
}

// Run implements Runner.
func (t *Together) Run(ctx context.Context, c Command) (Output, error) {
	if !c.Asks || c.Stdin != nil || len(c.Env) > 0 || t.alone.Load() {
		return t.Runner.Run(ctx, c)
	}
	q := &question{ctx: ctx, command: c, answer: make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, q)
	if len(t.waiting) == 1 {
		time.AfterFunc(gatherTime, t.ask)
	}
	t.mu.Unlock()
	select {
	case <-q.answer:
	case <-ctx.Done():
		return Output{}, context.Cause(ctx)
	}
	if q.alone {
		return t.Runner.Run(ctx, c)
	}
	return q.out, q.err
}

// ask answers all questions that wait.
func (t *Together) ask() {
	t.mu.Lock()
	asked := t.waiting
	t.waiting = nil
	t.mu.Unlock()
	alone := len(asked) == 1 || !t.askShell(asked)
	for _, q := range asked {
		q.alone = q.alone || alone
		close(q.answer)
	}
}

// askShell answers the questions by a shell; false is none of them, because of the shell.
func (t *Together) askShell(asked []*question) bool {
	mark := rand.Text()
	programs := make([]Command, len(asked))
	for i, q := range asked {
		programs[i] = q.command
	}
	script := scriptOf(programs, mark, "")
	if len(script) > maxScript {
		return false
	}
	ctx, stop := whileAnyWaits(asked)
	defer stop()
	out, err := t.Runner.Run(ctx, Command{Argv: []string{"sh", "-c", script}})
	_, failed := errors.AsType[*Error](err)
	switch {
	case errors.Is(err, ErrNotFound):
		t.alone.Store(true)
		return false
	case failed:
		return false
	case err == nil:
		return t.answerAll(asked, out, mark)
	}
	for _, q := range asked {
		q.err = err
	}
	return true
}

// whileAnyWaits is a context that ends once nobody waits any more.
func whileAnyWaits(asked []*question) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(asked[0].ctx))
	var left atomic.Int32
	left.Store(int32(len(asked)))
	stops := make([]func() bool, len(asked))
	for i, q := range asked {
		stops[i] = context.AfterFunc(q.ctx, func() {
			if left.Add(-1) == 0 {
				cancel(context.Cause(q.ctx))
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// scriptOf runs the programs, and writes the mark to both outputs in front of all, because a shell may say something first, and
// behind each, with its exit code to the first output. then is what follows each. A program that is fed has the shell's input.
func scriptOf(programs []Command, mark, then string) string {
	var script strings.Builder
	fmt.Fprintf(&script, "printf %s; printf %s >&2\n", mark, mark)
	for _, c := range programs {
		input := "</dev/null"
		if c.Stdin != nil {
			input = ""
		}
		fmt.Fprintf(&script, "%s %s; code=$?; printf '%s %%d\\n' $code; printf %s >&2\n%s", quoted(c.Argv), input, mark, mark, then)
	}
	return script.String()
}

// quoted is a command line for a shell (POSIX.1-2024, XCU 2.2.2).
func quoted(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// ended is how a program of a script ended.
type ended struct {
	out  Output
	code int
}

// parseEnds takes apart what a script wrote, as far as it came; false is that nobody can tell.
func parseEnds(out Output, mark string) ([]ended, bool) {
	stdout := strings.Split(out.Stdout, mark)
	if len(stdout) < 2 {
		return nil, false
	}
	stderr := strings.Split(out.Stderr, mark)
	if len(stderr) != len(stdout) { // of what is too long a part is lost: nobody knows whose the rest is
		stderr = slices.Repeat([]string{strings.Join(stderr, "")}, len(stdout))
	}
	stdout, stderr = stdout[1:], stderr[1:]
	ends := make([]ended, len(stdout)-1)
	for i := range ends {
		line, rest, _ := strings.Cut(stdout[i+1], "\n")
		code, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return nil, false
		}
		stdout[i+1] = rest
		ends[i] = ended{out: Output{Stdout: stdout[i], Stderr: stderr[i]}, code: code}
	}
	return ends, true
}

// answerAll hands out what the script wrote; false is that it did not come to its end.
func (t *Together) answerAll(asked []*question, out Output, mark string) bool {
	ends, ok := parseEnds(out, mark)
	if !ok || len(ends) != len(asked) {
		return false
	}
	t.shell.Store(true)
	for i, q := range asked {
		q.out = ends[i].out
		switch ends[i].code {
		case 0:
		case notFound: // or its own code: by itself it can be told
			q.alone = true
		default:
			q.err = &Error{Command: q.command, Output: q.out, Code: ends[i].code}
		}
	}
	return true
}
