package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"
)

// killed is the exit code that a shell has for a program that SIGKILL ended (POSIX.1-2024, XCU 2.8.2; 128 and the signal).
const killed = 128 + 9

// untilOneFails follows each program of a script that is a chain.
const untilOneFails = "[ $code = 0 ] || exit 0\n"

// Result is what came of a program.
type Result struct {
	Output Output
	Err    error
}

// Chainer is a Runner that can run several programs by one start.
type Chainer interface {
	Runner
	// RunChain is the function RunChain.
	RunChain(ctx context.Context, chain []Command) []Result
}

// RunChain runs programs one after the other for as long as they succeed, and gives what came of each that was run. Only the
// first may be fed.
func RunChain(ctx context.Context, r Runner, chain []Command) []Result {
	if chainer, ok := r.(Chainer); ok && len(chain) > 1 {
		return chainer.RunChain(ctx, chain)
	}
	return runEach(ctx, r, chain)
}

// runEach runs a chain by as many starts as there are programs.
func runEach(ctx context.Context, r Runner, chain []Command) []Result {
	var results []Result
	for _, c := range chain {
		out, err := r.Run(ctx, c)
		if results = append(results, Result{out, err}); err != nil {
			break
		}
	}
	return results
}

var (
	_ Chainer = (*Together)(nil)
	_ Chainer = Limited{}
)

// RunChain implements Chainer: by one shell, once a shell has answered questions. Its programs may change things, so that none
// is run again where the shell fails.
func (t *Together) RunChain(ctx context.Context, chain []Command) []Result {
	mark := rand.Text()
	script := scriptOf(chain, mark, untilOneFails)
	ownEnv := slices.ContainsFunc(chain, func(c Command) bool { return len(c.Env) > 0 })
	if !t.shell.Load() || ownEnv || len(script) > maxScript {
		return runEach(ctx, t.Runner, chain)
	}
	out, err := t.Runner.Run(ctx, Command{Argv: []string{"sh", "-c", script}, Stdin: chain[0].Stdin})
	if failed, ok := errors.AsType[*Error](err); ok {
		err = &Error{Command: chain[0], Output: out, Code: failed.Code, Err: failed.Err}
	}
	if err != nil {
		return []Result{{Err: err}}
	}
	ended, ok := parseEnds(out, mark)
	if !ok || !isWhole(ended, len(chain)) {
		return []Result{{Err: fmt.Errorf("%s: the shell that ran it did not say how it ended", chain[0])}}
	}
	results := make([]Result, len(ended))
	for i, e := range ended {
		results[i].Output = e.out
		if e.code == killed {
			e.code = -1
		}
		if e.code != 0 {
			results[i].Err = &Error{Command: chain[i], Output: e.out, Code: e.code}
		}
	}
	return results
}

// isWhole says whether a chain of n programs came to its end: that of all, or the first failure.
func isWhole(ended []ended, n int) bool {
	return len(ended) == n || len(ended) > 0 && len(ended) < n && ended[len(ended)-1].code != 0
}

// RunChain implements Chainer. What is one start has one limit: that of the first program where it is fed, and else as much as
// all have by themselves.
func (l Limited) RunChain(ctx context.Context, chain []Command) (results []Result) {
	chainer, ok := l.Runner.(Chainer)
	if !ok {
		return runEach(ctx, l, chain)
	}
	l.Limits.Call *= time.Duration(len(chain))
	l.watch(ctx, chain[0], func(ctx context.Context, first Command) {
		results = chainer.RunChain(ctx, append([]Command{first}, chain[1:]...))
	})
	return results
}
