package registry

import (
	"fmt"
	"time"
)

// EventKind says what an Event tells of.
type EventKind string

// The kinds of events.
const (
	// Wait is told before a wait that another attempt follows.
	Wait EventKind = "wait"
	// Mirror is told when a mirror serves in place of a throttled origin, and when one is left out.
	Mirror EventKind = "mirror"
	// Credentials is told when a stored credential is of no use and the pull goes on without it.
	Credentials EventKind = "credentials"
	// Resume is told when a layer goes on after its connection broke.
	Resume EventKind = "resume"
)

// Event is something that a person following a pull wants to know. Its text holds no secret.
type Event struct {
	Kind EventKind
	// Image is the image concerned, in familiar form, or "" where it is about a whole host.
	Image string
	// Host is the registry host concerned.
	Host string
	// Wait is how long a wait is.
	Wait time.Duration
	// Attempt is the number of the attempt that failed, from 1; 0 where a Wait is for what another pull was told.
	Attempt int
	// Text says what happened, in one line.
	Text string
}

// String is one line for a log.
func (e Event) String() string {
	s := e.Host + " " + e.Text
	if e.Kind == Wait {
		s = fmt.Sprintf("waiting %s: %s", e.Wait.Round(100*time.Millisecond), e.Text)
	}
	if e.Image != "" {
		s = e.Image + ": " + s
	}
	return s
}

func (c *Client) notify(e Event) {
	if c.options.Notify != nil {
		c.options.Notify(e)
	}
}
