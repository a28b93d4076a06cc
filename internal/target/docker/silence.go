package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Limits are how long a daemon may be silent before it counts as hung. In the zero value each is its default.
type Limits struct {
	// Call bounds a question or an order that a daemon answers at once: inspect, list, tag, remove. 0 is a minute.
	Call time.Duration
	// Stall is how long the daemon may take no byte of what is at hand for it. 0 is two minutes.
	Stall time.Duration
	// Quiet is how long the daemon may say nothing once it has the whole archive, or wants nothing of what it pulls. It says
	// nothing while it unpacks, which takes many minutes for a large image on a slow disk. 0 is 20 minutes.
	Quiet time.Duration
	// Contact is how long a daemon that is to pull may take to ask for the image. One that does not is sent the archive. 0
	// is ten seconds.
	Contact time.Duration
}

func (l Limits) withDefaults() Limits {
	for limit, usual := range map[*time.Duration]time.Duration{
		&l.Call: time.Minute, &l.Stall: 2 * time.Minute, &l.Quiet: 20 * time.Minute, &l.Contact: 10 * time.Second,
	} {
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

	mu      sync.Mutex
	waiting bool // for what the daemon says
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
	w.wait(false)
}

// wait says whether it is up to the daemon to say or to want something.
func (w *watch) wait(waiting bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = waiting
	w.quiet.Stop()
	if waiting {
		w.quiet.Reset(w.limits.Quiet)
	}
}

// said begins the wait anew.
func (w *watch) said() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting {
		w.quiet.Reset(w.limits.Quiet)
	}
}

// layer is what a layer is written to that the daemon has asked for. It is waited for again when that is closed.
func (w *watch) layer(to io.Writer) io.WriteCloser {
	w.wait(false)
	return watched{w, to}
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

// Close implements io.Closer: all is written.
func (w watched) Close() error {
	w.wait(true)
	return nil
}

// heard is the daemon's answer.
type heard struct {
	*watch
	r io.Reader
}

// Read implements io.Reader.
func (h heard) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if n > 0 {
		h.said()
	}
	return n, err
}
