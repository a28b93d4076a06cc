package simulate

import (
	"time"

	"github.com/pullonce/pullonce/internal/retry"
)

// loop is retry.Do in virtual time: it asks the same policy the same questions.
type loop struct {
	policy  retry.Policy
	began   time.Duration // when the first try began
	tried   time.Duration // when the last try began
	attempt int           // tries that have failed
}

// newLoop is a loop whose first try begins at t.
func newLoop(p retry.Policy, t time.Duration) loop { return loop{policy: p, began: t, tried: t} }

// failed takes down a try that failed at t and says when the next begins, if one does.
func (l *loop) failed(w *world, t time.Duration, class retry.Class, hint time.Duration) (next time.Duration, more bool) {
	l.attempt++
	wait, reason := l.policy.Next(retry.Try{
		Attempt: l.attempt, Elapsed: l.policy.Used + t - l.began, Took: t - l.tried, Class: class, Hint: hint, Jitter: w.random.Float64(),
	})
	l.tried = t + wait
	return l.tried, reason == ""
}
