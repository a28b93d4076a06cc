// Package preflight owns the verdict on whether a job may do in a cluster what it will do: permissions as people write
// them, the questions that they are, the schedule on which these are asked until they are answered, and what the answers
// come to. It knows no network, no credentials and no runner.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/retry"
)

const (
	// AttemptLimit is what a question that hangs costs: the longest that one try may take.
	AttemptLimit = 15 * time.Second
	// MinTimeout is the least time in which tries follow one another. At the longest waits, four fit.
	MinTimeout = 21 * time.Second
	// maxAsked is how many questions are asked at a time.
	maxAsked = 16
)

// Question is what the cluster's API is asked: may this job do so, in this namespace?
type Question struct {
	Permission
	// Namespace is "" for what is in none.
	Namespace string `json:"namespace,omitempty"`
}

// Questions are those that the permissions stand for in a namespace.
func Questions(permissions []Permission, namespace string) []Question {
	questions := make([]Question, len(permissions))
	for i, p := range permissions {
		questions[i] = Question{Permission: p, Namespace: namespace}
		if p.Group == "" && slices.Contains(coreWithoutNamespace(), p.Resource) {
			questions[i].Namespace = ""
		}
	}
	return questions
}

// Answer is what the API says to a question. That something is not allowed is an answer.
type Answer struct {
	Allowed bool `json:"allowed"`
	// Reason is why, in the cluster's words, or "".
	Reason string `json:"reason,omitempty"`
}

// Asker asks the API a question, once. Safe for concurrent use.
type Asker interface {
	// Ask makes one try. Errors are retry.Classified; ctx ends when the try has taken AttemptLimit.
	Ask(ctx context.Context, q Question) (Answer, error)
}

// Options of Ask. The zero value works.
type Options struct {
	// Timeout is how long tries follow one another, 3 min by default. Less than MinTimeout counts as MinTimeout.
	Timeout time.Duration
	// Jitter makes the source of chance for the waits of one question; math/rand/v2's by default.
	Jitter func(Question) func() float64
	// OnWait is told before each wait. It may be nil, and must be safe for concurrent use.
	OnWait func(q Question, attempt int, wait time.Duration, err error)
}

// policy is the schedule for one question. Windows in which a control plane does not answer last seconds: it begins with
// short waits, and never waits so long that a window has time to open again.
func (o Options) policy(q Question) retry.Policy {
	p := retry.Policy{Timeout: 3 * time.Minute, First: 2 * time.Second, Max: 10 * time.Second}
	if o.Timeout > 0 {
		p.Timeout = max(o.Timeout, MinTimeout)
	}
	if o.Jitter != nil {
		p.Jitter = o.Jitter(q)
	}
	if o.OnWait != nil {
		p.OnWait = func(attempt int, wait time.Duration, err error) { o.OnWait(q, attempt, wait, err) }
	}
	return p
}

// Ask asks all questions side by side until each is answered, can't be, or the time is up, and gives the verdict. It is
// an error only that ctx ended.
func Ask(ctx context.Context, a Asker, questions []Question, o Options) (Verdict, error) {
	v := Verdict{Rows: make([]Row, len(questions))}
	var asking errgroup.Group
	asking.SetLimit(maxAsked)
	for i, q := range questions {
		asking.Go(func() error {
			v.Rows[i] = ask(ctx, a, q, o.policy(q))
			return nil
		})
	}
	_ = asking.Wait() // what went wrong is in the rows
	if ctx.Err() != nil {
		return Verdict{}, fmt.Errorf("asking the cluster's API: %w", context.Cause(ctx))
	}
	return v, nil
}

func ask(ctx context.Context, a Asker, q Question, p retry.Policy) Row {
	row := Row{Question: q}
	var failed time.Time // the first try that failed began then
	row.Attempts, row.Err = retry.Do(ctx, p, func(ctx context.Context, _ int) error {
		began := time.Now()
		answer, err := try(ctx, a, q)
		if err == nil {
			row.Answer = answer
			return nil
		}
		if failed.IsZero() {
			failed = began
		}
		row.LastFailure = err
		return err
	})
	if !failed.IsZero() {
		row.Unanswered = time.Since(failed)
	}
	return row
}

// try asks once, for AttemptLimit at most.
func try(parent context.Context, a Asker, q Question) (Answer, error) {
	ctx, cancel := context.WithTimeoutCause(parent, AttemptLimit, errHang)
	defer cancel()
	answer, err := a.Ask(ctx, q)
	if err != nil && parent.Err() == nil && errors.Is(context.Cause(ctx), errHang) {
		return Answer{}, hang{}
	}
	return answer, err
}

// errHang is why a try was ended that took AttemptLimit.
var errHang = errors.New("no answer in time")

// hang is the error of a try that was not answered.
type hang struct{}

var _ retry.Classified = hang{}

// Error implements error.
func (hang) Error() string { return fmt.Sprintf("no answer in %s", AttemptLimit) }

// RetryClass implements retry.Classified.
func (hang) RetryClass() retry.Class { return retry.Transient }

// RetryAfter implements retry.Classified.
func (hang) RetryAfter() time.Duration { return 0 }
