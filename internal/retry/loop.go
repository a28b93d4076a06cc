package retry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Do tries op until it succeeds or the policy says that no other try follows. op is told which attempt it is, from 1,
// and gets ctx as it is: the timeout bounds what is tried again, not a try that makes progress. Where ctx has a
// deadline of its own, the earlier one counts.
//
// It returns the number of attempts. An error is always an *Error. Once ctx ends, Do returns at once, with the cause.
func Do(ctx context.Context, p Policy, op func(ctx context.Context, attempt int) error) (attempts int, err error) {
	l := newLoop(ctx, p)
	for {
		if ctx.Err() != nil {
			return l.last.Attempt, l.interrupted(ctx, err)
		}
		began := time.Now()
		if err = op(ctx, l.last.Attempt+1); err == nil {
			return l.last.Attempt + 1, nil
		}
		l.note(err, time.Since(began))
		if ctx.Err() != nil {
			return l.last.Attempt, l.interrupted(ctx, err)
		}
		wait, reason := l.policy.Next(l.last)
		if reason != "" {
			return l.last.Attempt, l.stopped(reason, err)
		}
		if l.policy.OnWait != nil {
			l.policy.OnWait(l.last.Attempt, wait, err)
		}
		if Sleep(ctx, wait) != nil {
			return l.last.Attempt, l.interrupted(ctx, err)
		}
	}
}

// Sleep waits for d, or until ctx ends: then it returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// loop is the state of one Do.
type loop struct {
	policy Policy
	start  time.Time
	last   Try
}

func newLoop(ctx context.Context, p Policy) *loop {
	l := &loop{policy: p.withDefaults(), start: time.Now().Add(-p.Used)}
	if deadline, ok := ctx.Deadline(); ok {
		l.policy.Timeout = min(l.policy.Timeout, deadline.Sub(l.start))
	}
	if l.policy.Jitter == nil {
		l.policy.Jitter = rand.Float64
	}
	return l
}

// note takes down a try that failed.
func (l *loop) note(err error, took time.Duration) {
	t := Try{Attempt: l.last.Attempt + 1, Elapsed: time.Since(l.start), Took: took, Jitter: l.policy.Jitter()}
	t.Class, t.Hint = ClassOf(err)
	if t.Class == Uncertain {
		t.Refusals = l.last.Refusals + 1
	}
	l.last = t
}

// stopped is the error after which no try follows.
func (l *loop) stopped(reason Reason, err error) *Error {
	class := l.last.Class
	if reason == Refused {
		class = Permanent
	}
	return &Error{
		Attempts: l.last.Attempt, Elapsed: time.Since(l.start), Class: class, Timeout: l.policy.Timeout,
		Reason: reason, Asked: l.last.Hint, Err: err,
	}
}

// interrupted is the error of a context that has ended; last is that of the last try, or nil.
func (l *loop) interrupted(ctx context.Context, last error) *Error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(last, cause):
		cause = last
	case last != nil:
		cause = fmt.Errorf("%w; before that: %w", cause, last)
	}
	e := l.stopped(Interrupted, cause)
	e.Class = Permanent
	return e
}
