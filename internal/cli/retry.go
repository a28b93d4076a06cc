package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	program "github.com/pullonce/pullonce/internal/command" // command is a mode here
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/rerun"
	"github.com/pullonce/pullonce/internal/retry"
	"github.com/pullonce/pullonce/internal/workflow"
)

// retryCommand runs a command on the schedule that pulls are on.
type retryCommand struct {
	Timeout        wait     `default:"10m" help:"How long to wait and try again; an attempt that runs is not cut by it."`
	AttemptTimeout span     `default:"0" help:"How long one attempt may take; 0 is as long as it likes."`
	RetryCode      []int    `placeholder:"CODE" help:"Try again only after these exit codes, or what --retry-output names; default: after every failure."`
	RetryOutput    list     `placeholder:"REGEXP" help:"Try again only after output that matches, or what --retry-code names."`
	StopCode       []int    `placeholder:"CODE" help:"Never try again after these exit codes."`
	StopOutput     list     `placeholder:"REGEXP" help:"Never try again after output that matches."`
	Stdin          bool     `help:"Read standard input first, and give it to every attempt; without it they have none."`
	Argv           []string `arg:"" passthrough:"" name:"command" help:"The command and its arguments, after --."`
}

// maxStdin bounds what is read to be given to every attempt, in bytes.
const maxStdin = 64 << 20

func (c *retryCommand) run(ctx context.Context, s *session) (ExitCode, error) {
	// Standard output is the command's.
	s.runner = workflow.New(workflow.Options{Getenv: s.getenv, Stdout: s.Stderr})
	o, err := c.options(s)
	if err != nil {
		return 0, err
	}
	ctx, signals, stop := s.relay(ctx)
	defer stop()
	o.Signals = signals
	began := time.Now()
	code, attempts, err := rerun.Run(ctx, program.Host{}, o)
	switch {
	case err != nil && attempts == 0:
		return 0, err
	case err != nil:
		s.say(report.Problem{Severity: report.Error, Kind: "retry", Message: report.Line(err)})
	case attempts > 1:
		s.say(report.Problem{Severity: report.Notice, Kind: "retry", Message: fmt.Sprintf(
			"%s: succeeded at attempt %d, after %s", program.Command{Argv: o.Argv}, attempts, report.Duration(time.Since(began)))})
	}
	return ExitCode(code), nil
}

func (c *retryCommand) options(s *session) (rerun.Options, error) {
	argv, err := c.argv()
	if err != nil {
		return rerun.Options{}, err
	}
	if err := exitCodes("retry-code", c.RetryCode); err != nil {
		return rerun.Options{}, err
	}
	if err := exitCodes("stop-code", c.StopCode); err != nil {
		return rerun.Options{}, err
	}
	o := rerun.Options{
		Argv: argv, Stdout: s.Stdout, Stderr: s.Stderr, AttemptTimeout: time.Duration(c.AttemptTimeout),
		Rules: rerun.Rules{Codes: c.RetryCode, StopCodes: c.StopCode},
		Policy: retry.Policy{Timeout: time.Duration(c.Timeout), OnWait: func(attempt int, wait time.Duration, err error) {
			s.printf("attempt %d: %s; the next in %s", attempt, report.Line(err), report.Duration(wait))
		}},
	}
	if o.Rules.Output, err = patterns(c.RetryOutput); err != nil {
		return o, err
	}
	if o.Rules.StopOutput, err = patterns(c.StopOutput); err != nil {
		return o, err
	}
	if c.Stdin {
		o.Stdin, err = readStdin(s.Stdin)
	}
	return o, err
}

// argv is the command. What begins with a dash in front of -- was meant for us: only behind it may it name a program.
func (c *retryCommand) argv() ([]string, error) {
	argv := c.Argv
	switch {
	case len(argv) > 0 && argv[0] == "--":
		argv = argv[1:]
	case len(argv) > 0 && strings.HasPrefix(argv[0], "-"):
		flag, _, _ := strings.Cut(argv[0], "=")
		return nil, usagef("see: pullonce retry --help", "unknown flag %s", flag)
	}
	if len(argv) == 0 {
		return nil, usagef("write it as in: pullonce retry -- docker compose pull", "no command is named")
	}
	return argv, nil
}

// maxExitCode is the greatest that a process can end with (POSIX, "waitpid": the low 8 bits are all there is).
const maxExitCode = 255

func exitCodes(flag string, codes []int) error {
	for _, code := range codes {
		if code < 0 || code > maxExitCode {
			return usagef(fmt.Sprintf("an exit code is 0 to %d", maxExitCode), "--%s: there is no exit code %d", flag, code)
		}
	}
	return nil
}

func patterns(list []string) ([]*regexp.Regexp, error) {
	var all []*regexp.Regexp
	for _, text := range list {
		pattern, err := regexp.Compile("(?m)" + text)
		if err != nil {
			return nil, usagef("patterns are those of Go's regexp package (RE2)", "invalid pattern %q: %w", text, err)
		}
		all = append(all, pattern)
	}
	return all, nil
}

func readStdin(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxStdin+1))
	if err != nil {
		return nil, fmt.Errorf("reading standard input: %w", err)
	}
	if len(data) > maxStdin {
		return nil, usagef("let the command read a file", "standard input is longer than %d MiB", maxStdin>>20)
	}
	return data, nil
}

// relay gives the signals that are a command's as well. Those that ask for the end end ctx, too: no attempt follows.
func (s *session) relay(parent context.Context) (context.Context, <-chan os.Signal, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	if s.Signals == nil {
		return ctx, nil, func() { cancel(nil) }
	}
	in, unsubscribe := s.Signals(passedOn()...)
	out, done := make(chan os.Signal, 8), make(chan struct{})
	var relaying sync.WaitGroup
	relaying.Go(func() {
		for {
			select {
			case signal := <-in:
				select {
				case out <- signal:
				default: // nobody runs that it is for
				}
				if program.Ends(signal) {
					cancel(fmt.Errorf("%s signal received", signal))
				}
			case <-done:
				return
			}
		}
	})
	return ctx, out, func() {
		unsubscribe()
		close(done)
		relaying.Wait()
		cancel(nil)
	}
}
