package retry

import (
	"fmt"
	"strings"
	"time"
)

// Error is the end of a loop that did not succeed. It reads in one line.
type Error struct {
	// Attempts is the number of tries that were made.
	Attempts int
	// Elapsed is the time used, waits included.
	Elapsed time.Duration
	// Class is what another loop would be worth. Uncertain has become Permanent after the last refusal.
	Class Class
	// Timeout is what the loop was given.
	Timeout time.Duration
	// Reason is why no other try followed.
	Reason Reason
	// Asked is how long the other side asked to wait in the end; 0 where it did not say.
	Asked time.Duration
	// Err is the last try's error; after an interruption the context's cause, with the last try's error beneath it.
	Err error
}

var _ Classified = (*Error)(nil)

// Error implements error: attempts, time, class, reason, and the last cause.
func (e *Error) Error() string {
	tries := "attempts"
	if e.Attempts == 1 {
		tries = "attempt"
	}
	return fmt.Sprintf("gave up after %d %s in %s (%s: %s): %s", e.Attempts, tries, short(e.Elapsed), e.Class, e.why(), oneLine(e.Err))
}

// why is the reason with the figures that belong to it.
func (e *Error) why() string {
	switch e.Reason {
	case TimeIsUp:
		return fmt.Sprintf("%s, timeout %s", e.Reason, short(e.Timeout))
	case AskedTooFar:
		return fmt.Sprintf("%s, %s with a timeout of %s", e.Reason, short(e.Asked), short(e.Timeout))
	default:
		return string(e.Reason)
	}
}

// Unwrap gives the last cause.
func (e *Error) Unwrap() error { return e.Err }

// RetryClass implements Classified.
func (e *Error) RetryClass() Class { return e.Class }

// RetryAfter implements Classified.
func (e *Error) RetryAfter() time.Duration { return e.Asked }

// short is a duration as people say it: no finer than it matters, and 10m rather than 10m0s.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	default:
		d = d.Round(time.Millisecond)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// oneLine is an error's text without line breaks and runs of white space.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
