// Package command owns the running of a program: its end with its context, what it is fed, what it said, and the error
// that carries both argv and output. It does not know which programs exist or what they are for.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pullonce/pullonce/internal/oneline"
)

// MaxOutput bounds each of a program's outputs, in bytes. A standard output that is longer is an error, because its
// reader would see half of it; of standard error the end is kept.
const MaxOutput = 1 << 20

// ErrNotFound says that there is no such program.
var ErrNotFound = errors.New("program not found")

// ErrOutput says that a program wrote more than MaxOutput bytes to its standard output.
var ErrOutput = errors.New("too much output")

// Command is a program to run.
type Command struct {
	// Argv are the program and its arguments. A program without a slash is looked up on PATH.
	Argv []string
	// Stdin writes what the program reads; nil is nothing. An error of it ends the program, which must never take the
	// beginning of a stream for the whole; an error of w is the program's own end and of no consequence. ctx ends with
	// the program.
	Stdin func(ctx context.Context, w io.Writer) error
	// Asks says that the program changes nothing: it may go on after its Run has ended, and be run again.
	Asks bool
	// Env are variables beyond those of this process, as NAME=value.
	Env []string
}

// String is the command as one would type it, in one line.
func (c Command) String() string { return oneline.Of(strings.Join(c.Argv, " ")) }

// Output is what a program wrote.
type Output struct {
	Stdout, Stderr string
}

// Runner runs programs, here or somewhere else. Safe for concurrent use.
type Runner interface {
	// Run runs c to its end. A program that is not there is ErrNotFound; one that ran and failed is *Error. When ctx ends
	// the program is ended as well, and the error is the cause of that.
	Run(ctx context.Context, c Command) (Output, error)
}

// Error is a program that failed.
type Error struct {
	Command Command
	Output  Output
	// Code is the exit code; -1 means that the program was killed.
	Code int
	// Err is why, where there is more to say than the exit code.
	Err error
}

// Error is one line: argv, how it ended, and its last words.
func (e *Error) Error() string {
	s := e.Command.String() + ": " + e.Reason()
	if said := e.Said(); said != "" {
		s += ": " + said
	}
	return s
}

// Reason is how the program ended, as in "exit code 1".
func (e *Error) Reason() string {
	switch {
	case e.Err != nil:
		return oneline.Of(e.Err.Error())
	case e.Code < 0:
		return "killed"
	default:
		return fmt.Sprintf("exit code %d", e.Code)
	}
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Said is what the program had to say about its failure, in one line: its standard error, else its standard output.
func (e *Error) Said() string {
	if said := oneline.Of(e.Output.Stderr); said != "" {
		return said
	}
	return oneline.Of(e.Output.Stdout)
}
