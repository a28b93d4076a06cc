package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// Limits are how long a daemon may be silent before it counts as hung. In the zero value each is its default.
type Limits struct {
	// Call bounds a question or an order that a daemon answers at once: inspect, list, tag, remove. 0 is a minute.
	Call time.Duration
	// Stall is how long the daemon may take no byte of an archive that is at hand. 0 is two minutes.
	Stall time.Duration
	// Quiet is how long the daemon may say nothing once it has the whole archive. It says nothing while it unpacks, which
	// takes many minutes for a large image on a slow disk. 0 is 20 minutes.
	Quiet time.Duration
}

func (l Limits) withDefaults() Limits {
	for limit, usual := range map[*time.Duration]time.Duration{&l.Call: time.Minute, &l.Stall: 2 * time.Minute, &l.Quiet: 20 * time.Minute} {
		if *limit == 0 {
			*limit = usual
		}
	}
	return l
}

// silence is a daemon that hangs: neither its word nor a connection that broke.
type silence struct {
	daemon endpoint
	missed string
	limit  time.Duration
}

// Error implements error.
func (s *silence) Error() string {
	return fmt.Sprintf("Docker at %s %s within %s: see the daemon's log", s.daemon, s.missed, s.limit)
}

func isSilence(err error) bool {
	_, ok := errors.AsType[*silence](err)
	return ok
}

// briefly has call ask the daemon, within the limit for a call.
func (d *Docker) briefly(ctx context.Context, call func(context.Context) error) error {
	asking, cancel := context.WithTimeout(ctx, d.limits.Call)
	defer cancel()
	err := call(asking)
	if err != nil && asking.Err() != nil && ctx.Err() == nil {
		return &silence{daemon: d.endpoint, missed: "did not answer", limit: d.limits.Call}
	}
	return err
}

// watch ends a load whose daemon hangs. Its timers run only while the daemon is the one that is waited for: a source that
// is slow is none of its business.
type watch struct {
	stalled, quiet *time.Timer
	limits         Limits
	sent           atomic.Bool
}

func (d *Docker) watch(fail func(error)) *watch {
	timer := func(missed string, limit time.Duration) *time.Timer {
		t := time.AfterFunc(limit, func() { fail(&silence{daemon: d.endpoint, missed: missed, limit: limit}) })
		t.Stop()
		return t
	}
	return &watch{
		stalled: timer("took no byte of the image", d.limits.Stall),
		quiet:   timer("did not say that it has loaded the image", d.limits.Quiet),
		limits:  d.limits,
	}
}

// stop ends the watch. Nothing of the load may run any more.
func (w *watch) stop() {
	w.stalled.Stop()
	w.quiet.Stop()
}

// done says that the daemon has the whole archive.
func (w *watch) done() {
	w.sent.Store(true)
	w.quiet.Reset(w.limits.Quiet)
}

// watched is a writer to the daemon.
type watched struct {
	*watch
	w io.Writer
}

// Write implements io.Writer.
func (w watched) Write(p []byte) (int, error) {
	w.stalled.Reset(w.limits.Stall)
	defer w.stalled.Stop()
	return w.w.Write(p)
}

// heard is the daemon's answer.
type heard struct {
	*watch
	r io.Reader
}

// Read implements io.Reader.
func (h heard) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if n > 0 && h.sent.Load() {
		h.quiet.Reset(h.limits.Quiet)
	}
	return n, err
}
