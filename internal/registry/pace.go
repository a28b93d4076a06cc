package registry

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pullonce/pullonce/internal/retry"
)

const (
	// ecrInterval is the distance between anonymous requests to ECR Public.
	ecrInterval = time.Second
	// spread is the distance between requests to a host that has just throttled: whoever waited comes back one by one.
	spread = 250 * time.Millisecond
	// recovery is how long after a cool-down requests stay spread.
	recovery = 15 * time.Second
	// defaultCoolDown is how long a host is left alone that throttles and does not say for how long.
	defaultCoolDown = 5 * time.Second
)

// pacer decides when the next request to one host may start. It is shared by all pulls of the process: where one is told
// to wait, all wait. Safe for concurrent use.
type pacer struct {
	mu       sync.Mutex
	interval time.Duration // between requests, at all times
	next     time.Time     // when the next request may start
	coldTo   time.Time     // until when no request may start
	spreadTo time.Time     // until when requests are spread
}

// coolDown leaves the host alone for d from now on.
func (p *pacer) coolDown(now time.Time, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	until := now.Add(d)
	if !until.After(p.coldTo) {
		return
	}
	p.coldTo, p.spreadTo = until, until.Add(recovery)
	if until.After(p.next) {
		p.next = until
	}
}

// unpaced ends the pacing that was set from the start; a cool-down stays.
func (p *pacer) unpaced() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interval = 0
}

// reserve takes the next start. The caller must not start earlier.
func (p *pacer) reserve(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := now
	if p.next.After(at) {
		at = p.next
	}
	distance := p.interval
	if at.Before(p.spreadTo) {
		distance = max(distance, spread)
	}
	if distance > 0 {
		p.next = at.Add(distance)
	}
	return at
}

// cooling says how long no request may start yet.
func (p *pacer) cooling(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.coldTo.Sub(now)
}

// wait blocks until a request may start. A cool-down longer than most is not waited for: it is a throttle like the
// host's own.
func (p *pacer) wait(ctx context.Context, most time.Duration) error {
	for {
		now := time.Now()
		if cooling := p.cooling(now); cooling > most {
			return &Fault{class: retry.Throttled, after: cooling, text: fmt.Sprintf("asks for %s without requests", cooling.Round(time.Millisecond))}
		}
		if err := retry.Sleep(ctx, p.reserve(now).Sub(now)); err != nil {
			return err
		}
		// Another pull may have been told to wait meanwhile.
		if p.cooling(time.Now()) <= 0 {
			return nil
		}
	}
}
