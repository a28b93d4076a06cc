//go:build linux

package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Command is a program that is to be measured.
type Command struct {
	Argv []string
	// Env is the whole environment.
	Env []string
	// Dir is where it runs.
	Dir string
	// Stdin is a file that it reads; empty is nothing.
	Stdin string
}

// String is the command as a person would type it.
func (c Command) String() string {
	line := strings.Join(c.Argv, " ")
	if c.Stdin != "" {
		line += " <" + c.Stdin
	}
	return line
}

// Error is a program that failed.
type Error struct {
	Command Command
	// Output is the end of what it wrote, to both streams.
	Output string
	Err    error
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("running %s: %v\n%s", e.Command, e.Err, e.Output)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Runner runs programs through the process in between.
type Runner struct {
	// Child is the start of a command line whose program calls Child with what follows.
	Child []string
	// Dir is for what programs write.
	Dir string
}

// Run runs a program to its end and says what it took, and what it wrote to its standard output. A program that fails is
// an *Error. When ctx ends, the program does.
func (r Runner) Run(ctx context.Context, c Command) (Usage, string, error) {
	files, err := os.MkdirTemp(r.Dir, "run-")
	if err != nil {
		return Usage{}, "", fmt.Errorf("making a folder for what a program writes: %w", err)
	}
	defer os.RemoveAll(files)
	request, err := json.Marshal(order{Command: c, Files: files})
	if err != nil {
		return Usage{}, "", err
	}
	between := exec.CommandContext(ctx, r.Child[0], append(r.Child[1:len(r.Child):len(r.Child)], string(request))...)
	between.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	between.Cancel = func() error { return syscall.Kill(-between.Process.Pid, syscall.SIGKILL) }
	answer, err := between.Output()
	if ctx.Err() != nil {
		return Usage{}, "", ctx.Err()
	}
	var u Usage
	if err == nil {
		err = json.Unmarshal(answer, &u)
	}
	if err != nil {
		return Usage{}, "", &Error{Command: c, Err: childError(err), Output: tail(files, 4<<10)}
	}
	stdout, err := os.ReadFile(filepath.Join(files, "stdout"))
	return u, string(stdout), err
}

// childError is the cause as the process in between told it.
func childError(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		return errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}

// tail is the end of what the program wrote to its streams.
func tail(files string, limit int) string {
	var all string
	for _, name := range []string{"stdout", "stderr"} {
		data, _ := os.ReadFile(filepath.Join(files, name)) // one that was not made is empty
		all += string(data[max(0, len(data)-limit):])
	}
	return strings.TrimSpace(all)
}
