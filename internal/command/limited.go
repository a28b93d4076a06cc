package command

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Limits are how long a program may be silent before it counts as hung; 0 is no limit.
type Limits struct {
	// Call bounds a program that is fed nothing: a question, or an order that is carried out at once.
	Call time.Duration
	// Stall is how long a program may take no byte of its input.
	Stall time.Duration
	// Quiet is how long a program may go on once it has all its input.
	Quiet time.Duration
}

// Limited is a Runner that ends programs which hang. What they are ended with is *Hung.
type Limited struct {
	Runner Runner
	Limits Limits
}

var _ Runner = Limited{}

// Hung is a program that went on in silence for longer than it may.
type Hung struct {
	Command Command
	// Missed is what did not come, as in "did not end".
	Missed string
	Limit  time.Duration
}

// Error implements error.
func (h *Hung) Error() string { return fmt.Sprintf("%s %s within %s", h.Command, h.Missed, h.Limit) }

// Run implements Runner.
func (l Limited) Run(ctx context.Context, c Command) (out Output, err error) {
	l.watch(ctx, c, func(ctx context.Context, c Command) { out, err = l.Runner.Run(ctx, c) })
	return out, err
}

// watch has run run c, which is watched for silence.
func (l Limited) watch(ctx context.Context, c Command, run func(context.Context, Command)) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	watched := c
	timer := func(missed string, limit time.Duration) *silence {
		return newSilence(limit, func() { fail(&Hung{Command: c, Missed: missed, Limit: limit}) })
	}
	if c.Stdin == nil {
		call := timer("did not end", l.Limits.Call)
		call.begin()
		defer call.end()
		run(ctx, watched)
		return
	}
	stall, quiet := timer("took none of its input", l.Limits.Stall), timer("did not end behind its input", l.Limits.Quiet)
	defer quiet.end()
	watched.Stdin = func(ctx context.Context, w io.Writer) error {
		err := c.Stdin(ctx, timed{w, stall})
		if err == nil {
			quiet.begin()
		}
		return err
	}
	run(ctx, watched)
}

// silence is a time that must not pass between its beginning and its end. It may begin again.
type silence struct {
	timer *time.Timer
	limit time.Duration
}

func newSilence(limit time.Duration, passed func()) *silence {
	s := &silence{limit: limit}
	if limit > 0 {
		s.timer = time.AfterFunc(limit, passed)
		s.timer.Stop()
	}
	return s
}

func (s *silence) begin() {
	if s.timer != nil {
		s.timer.Reset(s.limit)
	}
}

func (s *silence) end() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// timed is a writer that must take something within a time.
type timed struct {
	w     io.Writer
	stall *silence
}

// Write implements io.Writer.
func (t timed) Write(p []byte) (int, error) {
	t.stall.begin()
	defer t.stall.end()
	return t.w.Write(p)
}
