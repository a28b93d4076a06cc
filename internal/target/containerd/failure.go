package containerd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/oneline"
)

// run runs a client's command, called what for people, and gives its standard output.
func run(ctx context.Context, runner command.Runner, c command.Command, what string) (string, error) {
	out, err := runner.Run(ctx, c)
	return said(command.Result{Output: out, Err: err}, what)
}

// said is the standard output of a command that was called what for people.
func said(r command.Result, what string) (string, error) {
	if failed, ok := errors.AsType[*command.Error](r.Err); ok {
		return "", &ClientError{What: what, Cause: failed}
	}
	if hung, ok := errors.AsType[*command.Hung](r.Err); ok {
		return "", fmt.Errorf("%s %s %s within %s: containerd hangs, or its disk does: see its log", path.Base(hung.Command.Argv[0]), what, hung.Missed, hung.Limit)
	}
	return r.Output.Stdout, r.Err
}

// ClientError is a client's command that failed, in one line: what it was, what it said, and what to do where that is
// known. Its cause carries argv and output.
type ClientError struct {
	// What is the subcommand, as in "images import".
	What  string
	Cause *command.Error
}

// Error implements error.
func (e *ClientError) Error() string {
	said := complaint(e.Cause)
	text := path.Base(e.Cause.Command.Argv[0]) + " " + e.What + ": " + said
	if e.killed() {
		return text + " (there was no memory left for it, or somebody ended it)"
	}
	if advice := advise(said); advice != "" {
		text += " (" + advice + ")"
	}
	return text
}

// Unwrap gives the cause.
func (e *ClientError) Unwrap() error { return e.Cause }

// killed says whether the client did not end by itself.
func (e *ClientError) killed() bool { return e.Cause.Code < 0 }

// complaint is what a client has to say about its failure, without the warnings that its containerd has it print each time.
func complaint(err *command.Error) string {
	var kept []string
	for line := range strings.Lines(err.Output.Stderr) {
		if !strings.Contains(line, " level=warning ") {
			kept = append(kept, strings.TrimPrefix(line, "ctr: "))
		}
	}
	if said := oneline.Of(strings.Join(kept, " ")); said != "" {
		return said
	}
	return err.Reason()
}

// advise knows what to do about some of the things that containerd says.
func advise(said string) string {
	switch {
	case strings.Contains(said, "no space left on device"):
		return "free space where containerd keeps its data: it holds the archive's content and the unpacked image"
	case strings.Contains(said, "failed to dial"), strings.Contains(said, "connection refused"), strings.Contains(said, "transport is closing"):
		return "containerd went away: see its log"
	case strings.Contains(said, "operation not permitted"), strings.Contains(said, "lchown") && strings.Contains(said, "invalid argument"):
		return "containerd may not give files the owners that the image has: in a rootless one, widen /etc/subuid and /etc/subgid"
	case strings.Contains(said, "read-only file system"):
		return "containerd's data folder is mounted read-only"
	case isUnknownLayer(said):
		return "its layers are of a kind that this containerd is too old for: zstd needs 1.5 or later"
	default:
		return ""
	}
}

// isUnknownLayer says whether it is the kind of a layer that a containerd does not know.
func isUnknownLayer(said string) bool {
	return strings.Contains(said, "zstd") || strings.Contains(said, "unknown image layer") || strings.Contains(said, "unsupported layer type")
}
