package registry

import (
	"fmt"
	"time"

	"github.com/pullonce/pullonce/internal/retry"
)

// Fault is what went wrong in one attempt, with the class that decides about the next one. Its text is one line and
// holds no secret.
type Fault struct {
	// Host is the registry host that was asked, as people write it.
	Host string
	// Status is the HTTP status of the answer; 0 where there was none.
	Status int

	class retry.Class
	after time.Duration
	text  string
	cause error
}

var _ retry.Classified = (*Fault)(nil)

// Error implements error.
func (f *Fault) Error() string {
	if f.Host == "" {
		return f.text
	}
	return f.Host + ": " + f.text
}

// Unwrap gives the error beneath, where there is one.
func (f *Fault) Unwrap() error { return f.cause }

// RetryClass implements retry.Classified.
func (f *Fault) RetryClass() retry.Class { return f.class }

// RetryAfter implements retry.Classified.
func (f *Fault) RetryAfter() time.Duration { return f.after }

// permanently makes a fault that another attempt can't cure.
func permanently(format string, args ...any) *Fault {
	return &Fault{class: retry.Permanent, text: fmt.Sprintf(format, args...)}
}

// transiently makes a fault that may pass.
func transiently(format string, args ...any) *Fault {
	return &Fault{class: retry.Transient, text: fmt.Sprintf(format, args...)}
}

// at says which host the fault is of.
func (f *Fault) at(host string) *Fault {
	f.Host = host
	return f
}
