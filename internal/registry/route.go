package registry

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/retry"
)

// place is a repository on a host: the origin's own, or a mirror's copy of it.
type place struct {
	host       *host
	repository string
}

// route is where one pull may get its bytes, and what it has learnt on the way. Safe for concurrent use.
type route struct {
	client  *Client
	image   string // in familiar form, for events
	origin  place
	mirrors []place
	// pinned says that the digest is known, so that a mirror can be believed before the origin was asked.
	pinned bool

	mu            sync.Mutex
	out           map[*host]bool // mirrors that have failed this pull
	authenticated bool           // stored credentials were sent
}

func (c *Client) newRoute(ref reference.Reference) *route {
	r := &route{
		client: c,
		image:  ref.Familiar(),
		origin: place{c.host(ref.Domain()), ref.Path()},
		pinned: ref.Digest() != "",
		out:    map[*host]bool{},
	}
	for _, mirror := range c.options.Mirrors[ref.Domain()] {
		domain, prefix, _ := strings.Cut(strings.Trim(mirror, "/"), "/")
		r.mirrors = append(r.mirrors, place{c.host(domain), strings.TrimPrefix(prefix+"/"+ref.Path(), "/")})
	}
	return r
}

// try makes one attempt at a request, at each place that comes into question, until use is content with an answer. A
// mirror never makes an attempt fail: whatever is wrong with it, the next place is asked. use owns the answer's body.
func (r *route) try(ctx context.Context, req request, use func(place, *http.Response) error) error {
	if r.pinned || r.origin.host.pace.Cooling(time.Now()) > 0 {
		if r.tryMirrors(ctx, req, use) {
			return nil
		}
	}
	err := r.tryPlace(ctx, r.origin, req, use)
	if class, _ := retry.ClassOf(err); err != nil && class == retry.Throttled && r.tryMirrors(ctx, req, use) {
		return nil
	}
	return err
}

func (r *route) tryPlace(ctx context.Context, at place, req request, use func(place, *http.Response) error) error {
	req.repository = at.repository
	resp, err := r.client.send(ctx, at.host, req)
	if err != nil {
		return err
	}
	if err := use(at, resp); err != nil {
		return networkFault(ctx, at.host.domain, err)
	}
	if g, _ := at.host.granted(at.repository, time.Now()); g.credentials {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.authenticated = true
	}
	return nil
}

func (r *route) wasAuthenticated() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.authenticated
}

// tryMirrors says whether a mirror had what was asked for.
func (r *route) tryMirrors(ctx context.Context, req request, use func(place, *http.Response) error) bool {
	for _, mirror := range r.mirrors {
		if r.isOut(mirror) || mirror.host.pace.Cooling(time.Now()) > 0 {
			continue
		}
		err := r.tryPlace(ctx, mirror, req, use)
		if err == nil {
			if !r.pinned {
				r.client.notify(Event{Kind: Mirror, Image: r.image, Host: mirror.host.domain, Text: "serves " + req.path + " while " + r.origin.host.domain + " throttles"})
			}
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		r.giveUp(mirror, err)
	}
	return false
}

// giveUp leaves a mirror out for the rest of the pull. The origin is never left out.
func (r *route) giveUp(at place, err error) {
	if at.host == r.origin.host {
		return
	}
	r.mu.Lock()
	r.out[at.host] = true
	r.mu.Unlock()
	r.client.notify(Event{Kind: Mirror, Image: r.image, Host: at.host.domain, Text: "is left out: " + err.Error()})
}

func (r *route) isOut(at place) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out[at.host]
}
