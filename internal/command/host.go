package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"time"

	"golang.org/x/sync/errgroup"
)

// grace is how long a program that was asked to end may take before it and its children are killed.
const grace = time.Second

// Host runs programs on this machine, each in a process group of its own.
type Host struct{}

var _ Runner = Host{}

// Run implements Runner.
func (Host) Run(parent context.Context, c Command) (Output, error) {
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	stdout, stderr := &bounded{}, &bounded{tail: true}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if len(c.Env) > 0 {
		cmd.Env = append(cmd.Environ(), c.Env...)
	}
	cmd.WaitDelay = grace
	ownGroup(cmd)
	feeding, err := start(ctx, cmd, c, fail)
	if err != nil {
		return Output{}, err
	}
	err = cmd.Wait()
	cause := context.Cause(ctx) // why it was ended, if it was
	fail(nil)                   // whoever feeds it can stop
	if cause != nil {
		killGroup(cmd)
	}
	_ = feeding.Wait() // its errors are in cause
	return result(c, Output{stdout.String(), stderr.String()}, stdout.over, cmd, err, cause)
}

// start starts the program and, where it is fed, its feeding.
func start(ctx context.Context, cmd *exec.Cmd, c Command, fail func(error)) (*errgroup.Group, error) {
	var feeding errgroup.Group
	var stdin io.WriteCloser
	if c.Stdin != nil {
		var err error
		if stdin, err = cmd.StdinPipe(); err != nil {
			return nil, fmt.Errorf("starting %s: %w", c, err)
		}
	}
	if err := cmd.Start(); err != nil {
		switch {
		case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%w: %s", ErrNotFound, c.Argv[0])
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		default:
			return nil, fmt.Errorf("starting %s: %w", c, err)
		}
	}
	if c.Stdin != nil {
		feeding.Go(func() error {
			feed(ctx, stdin, c.Stdin, fail)
			return nil
		})
	}
	return &feeding, nil
}

// feed writes a program's input and ends it. Input that breaks is not ended: the program is, first.
func feed(ctx context.Context, stdin io.WriteCloser, write func(context.Context, io.Writer) error, fail func(error)) {
	pipe := &sink{w: stdin}
	err := write(ctx, pipe)
	if err == nil || pipe.err != nil {
		_ = stdin.Close()
		return
	}
	fail(err)
}

// sink remembers that the program takes no more.
type sink struct {
	w   io.Writer
	err error
}

// Write implements io.Writer.
func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		s.err = err
	}
	return n, err
}

// result tells what a program came to that has ended.
func result(c Command, out Output, over bool, cmd *exec.Cmd, err, cause error) (Output, error) {
	code := cmd.ProcessState.ExitCode()
	switch {
	case cause != nil && (err != nil || code != 0):
		return out, cause
	case code != 0:
		return out, &Error{Command: c, Output: out, Code: code}
	case over:
		return out, &Error{Command: c, Output: out, Err: ErrOutput}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return out, &Error{Command: c, Output: out, Code: code, Err: err}
	default:
		return out, nil
	}
}

// bounded keeps the first MaxOutput bytes of what is written to it, or the last.
type bounded struct {
	data []byte
	tail bool
	over bool
}

// Write implements io.Writer. It takes all there is, so that a program is never stopped by what it says.
func (b *bounded) Write(p []byte) (int, error) {
	n := len(p)
	if b.tail {
		b.data = append(b.data, p...)
		if len(b.data) > 2*MaxOutput {
			b.data = append(b.data[:0], b.data[len(b.data)-MaxOutput:]...)
		}
		return n, nil
	}
	room := MaxOutput - len(b.data)
	b.over = b.over || n > room
	b.data = append(b.data, p[:min(n, room)]...)
	return n, nil
}

func (b *bounded) String() string {
	if b.tail && len(b.data) > MaxOutput {
		return string(b.data[len(b.data)-MaxOutput:])
	}
	return string(b.data)
}
