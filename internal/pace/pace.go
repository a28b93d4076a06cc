// Package pace owns when the next request to one host may start, from what that host has said: pure arithmetic on the times
// that it is given, so that it serves the real client and a simulation in virtual time alike. It does not wait, and it does
// not know HTTP.
package pace

import (
	"sync"
	"time"
)

const (
	// Spread is the distance between requests to a host that has just throttled: whoever waited comes back one by one.
	Spread = 250 * time.Millisecond
	// Recovery is how long after a cool-down requests stay spread.
	Recovery = 15 * time.Second
	// CoolDown is how long a host is left alone that throttles and does not say for how long.
	CoolDown = 5 * time.Second
	// ECRPublic is the distance between anonymous requests to ECR Public, which allows one image pull a second (Amazon ECR
	// Public service quotas).
	ECRPublic = time.Second
)

// Pacer decides when the next request to one host may start. It is shared by all pulls of a process: where one is told to
// wait, all wait. The zero value lets every request start at once. Safe for concurrent use.
type Pacer struct {
	mu       sync.Mutex
	interval time.Duration // between requests, at all times
	next     time.Time     // when the next request may start
	coldTo   time.Time     // until when no request may start
	spreadTo time.Time     // until when requests are spread
}

// SetInterval keeps requests apart at all times; 0 ends that, and a cool-down stays.
func (p *Pacer) SetInterval(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interval = d
}

// CoolDown leaves the host alone for d from now on. A cool-down that ends before another does changes nothing.
func (p *Pacer) CoolDown(now time.Time, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	until := now.Add(d)
	if !until.After(p.coldTo) {
		return
	}
	p.coldTo, p.spreadTo = until, until.Add(Recovery)
	if until.After(p.next) {
		p.next = until
	}
}

// Reserve takes the next start. The caller must not start earlier.
func (p *Pacer) Reserve(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := now
	if p.next.After(at) {
		at = p.next
	}
	distance := p.interval
	if at.Before(p.spreadTo) {
		distance = max(distance, Spread)
	}
	if distance > 0 {
		p.next = at.Add(distance)
	}
	return at
}

// Cooling says how long no request may start yet; it is not positive where one may.
func (p *Pacer) Cooling(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.coldTo.Sub(now)
}
