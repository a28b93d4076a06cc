// Package cli owns the command line: subcommands, flags, usage, exit codes, and what a person reads. One option struct
// serves the flags of a mode and the inputs of the action. It does not know HTTP or tar.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/workflow"
)

// ExitCode is what the process ends with.
type ExitCode int

// The exit codes.
const (
	// ExitOK means done, a degraded lane included.
	ExitOK ExitCode = 0
	// ExitNo means that the answer is no: prime, gate, audit or preflight said so, or a lane with on-miss: fail did.
	ExitNo ExitCode = 1
	// ExitUsage means wrong use: flags, inputs or the pin list.
	ExitUsage ExitCode = 2
	// ExitInternal means an internal error, or that the run was interrupted.
	ExitInternal ExitCode = 3
)

// Process is what a run sees of the process it runs in.
type Process struct {
	Args      []string
	LookupEnv func(string) (string, bool)
	Stdin     io.Reader
	Stdout    *os.File
	Stderr    *os.File
	// Signals subscribes to signals until stop is called; nil has none.
	Signals func(...os.Signal) (signals <-chan os.Signal, stop func())
}

// getenv is LookupEnv for those to whom empty and unset are one.
func (p Process) getenv(name string) string {
	value, _ := p.LookupEnv(name)
	return value
}

// command is one mode: its fields are its options.
type command interface {
	run(ctx context.Context, s *session) (ExitCode, error)
}

// usageError is wrong use: it ends the run with ExitUsage and, where it has one, a hint.
type usageError struct {
	err  error
	hint string
}

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(hint, format string, args ...any) error {
	return usageError{err: fmt.Errorf(format, args...), hint: hint}
}

// Main runs the command that p.Args name and says how it ended. It never panics and never exits the process.
func Main(ctx context.Context, p Process) (code ExitCode) {
	s := newSession(p)
	defer s.close()
	mode := ""
	defer func() {
		if v := recover(); v != nil {
			code = s.end(ctx, mode, fmt.Errorf("internal error: %v", v), ExitInternal)
		}
	}()
	chosen, done, err := s.parse(&mode)
	if done {
		return ExitOK
	}
	if err != nil {
		return s.end(ctx, mode, err, ExitUsage)
	}
	code, err = chosen.run(ctx, s)
	if err != nil {
		return s.end(ctx, mode, err, cmp.Or(code, ExitInternal))
	}
	if ctx.Err() != nil && mode != modeRetry {
		return s.end(ctx, mode, errors.New("interrupted"), ExitInternal)
	}
	return code
}

// end says what went wrong and picks the exit code. In a lane only wrong use fails the job: an error of ours is a
// warning there.
func (s *session) end(ctx context.Context, mode string, err error, code ExitCode) ExitCode {
	p := report.Problem{Severity: report.Error, Kind: "internal", Message: report.Line(err)}
	var findings pinErrors
	switch usage, ok := errors.AsType[usageError](err); {
	case errors.As(err, &findings):
		problems := findings.problems()
		s.sayAll(problems)
		s.misused(mode, problems)
		return ExitUsage
	case ok:
		p.Kind, p.Hint, code = "usage", usage.hint, ExitUsage
	case mode == modeLoad && ctx.Err() == nil && code == ExitInternal:
		p.Severity, code = report.Warning, ExitOK
	}
	s.say(p)
	if code == ExitUsage {
		s.misused(mode, []report.Problem{p})
	}
	return code
}

// parse reads the arguments. done means that help or the version was asked for and given.
func (s *session) parse(mode *string) (chosen command, done bool, err error) {
	var g grammar
	exited := false
	parser, err := kong.New(&g,
		kong.Vars{"version": versionLine()},
		kong.ValueFormatter(describeList),
		kong.Name("pullonce"),
		kong.Description("Pull each container image once per workflow run, load it everywhere."),
		kong.Writers(s.Stdout, s.Stderr),
		kong.Exit(func(int) { exited = true }),
		kong.Resolvers(kong.ResolverFunc(s.resolve)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.UsageOnError(),
	)
	if err != nil {
		return nil, false, fmt.Errorf("building the command line: %w", err)
	}
	args, err := s.arguments(modesOf(parser.Model))
	if err != nil {
		return nil, false, err
	}
	bare := len(args) == 0
	if bare {
		parser.Stdout = s.Stderr
	}
	if bare || args[0] == "help" {
		args = append(slices.Clone(args[min(1, len(args)):]), "--help")
	}
	*mode = commandOf(args, parser.Model)
	parsed, err := parser.Parse(args)
	if bare {
		return nil, false, usagef("name one of those above", "no command is named")
	}
	if exited {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, s.misspoken(err, args, parser.Model)
	}
	if printsJSON(parsed.Selected()) {
		s.runner = workflow.New(workflow.Options{Getenv: s.getenv, Stdout: s.Stderr})
	}
	*mode = parsed.Selected().Name
	return parsed.Selected().Target.Addr().Interface().(command), false, nil
}

// printsJSON says whether the command's result is a JSON document. Then standard output is the document's alone, and what
// is for the runner, which reads both streams, goes to standard error.
func printsJSON(command *kong.Node) bool {
	for _, flag := range command.Flags {
		if flag.Name == "json" {
			return flag.Target.Bool()
		}
	}
	return false
}

// misspoken is the wrong use that the parser found, in the words of whoever wrote it: an input has no dashes, and its
// help is the action's.
func (s *session) misspoken(err error, args []string, model *kong.Application) error {
	if s.startedByAction() {
		return usagef("see the inputs in action.yml", "%s", strings.TrimPrefix(err.Error(), "--"))
	}
	return usageError{err: err, hint: "see: pullonce " + strings.TrimSpace(commandOf(args, model)+" --help")}
}

// commandOf is the subcommand that args name, for a hint: "" where what they name is none.
func commandOf(args []string, model *kong.Application) string {
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			if slices.ContainsFunc(model.Children, func(n *kong.Node) bool { return n.Name == arg }) {
				return arg
			}
			return ""
		}
	}
	return ""
}

// arguments are the process's own, or, where the action starts us, those that its inputs stand for.
func (s *session) arguments(modes []Mode) ([]string, error) {
	if !s.startedByAction() {
		return s.Args, nil
	}
	input, _ := s.runner.Input("mode")
	var known []string
	for _, mode := range modes {
		if input == mode.Name {
			return []string{input}, nil
		}
		known = append(known, mode.Name)
	}
	hint := "mode is one of " + strings.Join(known, ", ")
	if input == "" {
		return nil, usagef(hint, "the input mode is missing")
	}
	return nil, usagef(hint, "unknown input mode %q", input)
}

// startedByAction says whether the action started us. Only then are its inputs ours: in a step of another action, INPUT_*
// are that one's.
func (s *session) startedByAction() bool { return len(s.Args) == 1 && s.Args[0] == "action" }

// resolve gives a flag the value of the action's input of the same name.
func (s *session) resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if !s.startedByAction() || flag.Tag.Get("action") == "-" {
		return nil, nil //nolint:nilnil // kong's word for "not set"
	}
	if value, ok := s.runner.Input(flag.Name); ok && value != "" {
		return value, nil
	}
	return nil, nil //nolint:nilnil // kong's word for "not set"
}

// session is one run: the process, the runner's protocol, and how problems are said.
type session struct {
	Process
	runner *workflow.Runner
	ends   []func() error
}

// atEnd does end when the run is over, what was last first.
func (s *session) atEnd(end func() error) { s.ends = append(s.ends, end) }

// close does what was left for the end. What can't be cleaned up then changes nothing about how the run went.
func (s *session) close() {
	for _, end := range slices.Backward(s.ends) {
		if err := end(); err != nil {
			s.printf("cleaning up: %s", report.Line(err))
		}
	}
}

func newSession(p Process) *session {
	return &session{Process: p, runner: workflow.New(workflow.Options{Getenv: p.getenv, Stdout: p.Stdout})}
}
