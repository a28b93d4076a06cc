// Package retry owns the deadline schedule: the policy, which is pure, and the one loop on it. It knows neither HTTP
// nor registries: what is retryable is said by the error itself, which was classified beside the client that knows the
// protocol.
package retry

import (
	"errors"
	"time"
)

// Class says what another try is worth.
type Class int

// The classes, the zero value being the one that stops.
const (
	Permanent Class = iota // another try can't help
	Throttled              // the other side asks for fewer requests: wait, at least as long as it says
	Transient              // it may pass
	Uncertain              // it may be a passing refusal or a real one: a few tries, then permanent
)

// String is the class as it reads in an error.
func (c Class) String() string {
	switch c {
	case Throttled:
		return "throttled"
	case Transient:
		return "transient"
	case Uncertain:
		return "uncertain"
	default:
		return "permanent"
	}
}

// Classified is an error that knows its class. An error that is not Classified is Permanent.
type Classified interface {
	error
	// RetryClass is the error's class.
	RetryClass() Class
	// RetryAfter is how long the other side asks to wait; 0 where it does not say.
	RetryAfter() time.Duration
}

// ClassOf finds the class of err and the wait that it asks for.
func ClassOf(err error) (Class, time.Duration) {
	if c, ok := errors.AsType[Classified](err); ok {
		return c.RetryClass(), c.RetryAfter()
	}
	return Permanent, 0
}
