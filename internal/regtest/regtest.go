// Package regtest is a container registry for tests and for the demo. It lives in the process, makes its images on the
// fly from a seed, keeps a log of every request, throttles by client IP, and misbehaves by script. It speaks the
// reading half of the OCI distribution-spec. It knows nothing else of pullonce, so what it reports is evidence.
//
// A Registry is an http.Handler. Transport puts a client in front of it without a network, which is what
// testing/synctest needs; Start puts it on a loopback listener.
package regtest

import (
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
)

// Options say what kind of registry it is. The zero value is open to all, without limits and without faults.
type Options struct {
	// Auth asks for credentials; nil lets everybody in.
	Auth *Auth
	// Throttle sheds requests by client IP; nil sheds none.
	Throttle *Throttle
	// CDN is the base URL, as in "https://cdn.example", to which reads of blobs are redirected with a signature in the
	// query; "" serves them here.
	CDN string
	// Upstream is a registry whose content is served as well, as a mirror or a CDN does; nil is none.
	Upstream *Registry
	// NoRange ignores Range headers: every read of a blob starts at its first byte.
	NoRange bool
}

// Registry is an in-process registry. Safe for concurrent use.
type Registry struct {
	options  Options
	contents *contents
	tokens   *tokens
	throttle *limiter
	script   *script
	log      *journal
}

var _ http.Handler = (*Registry)(nil)

// New makes an empty registry.
func New(o Options) *Registry {
	r := &Registry{options: o, contents: &contents{}, script: &script{}, log: &journal{}}
	if o.Auth != nil {
		r.tokens = &tokens{auth: *o.Auth}
	}
	if o.Throttle != nil {
		r.throttle = newLimiter(*o.Throttle)
	}
	return r
}

// Add publishes an artifact under "repository:tag", or under its digest alone where name has no tag, and returns its
// digest. Adding to a tag that is there moves the tag.
func (r *Registry) Add(name string, a Artifact) digest.Digest {
	repository, tag, _ := strings.Cut(name, ":")
	r.contents.add(repository, tag, a)
	return a.Descriptor().Digest
}

// ServeHTTP implements http.Handler: the request is logged, meets the faults scripted for it, shows its credentials,
// passes the throttle, and is answered.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	entry := newEntry(req)
	entry.classify(r.lookup)
	w = r.log.follow(w, entry)
	answer := r.throttled(entry, r.answer(entry))
	r.script.next(entry.Request)(w, req, r.authorized(entry, answer))
}

// lookup finds content here or upstream.
func (r *Registry) lookup(repository, reference string) (item, bool) {
	found, ok := r.contents.find(repository, reference)
	if !ok && r.options.Upstream != nil {
		return r.options.Upstream.lookup(repository, reference)
	}
	return found, ok
}

// contents are the repositories.
type contents struct {
	mu    sync.RWMutex
	items map[[2]string]item // by repository and tag or digest
}

// item is one manifest or blob.
type item struct {
	kind      Kind
	mediaType string
	digest    digest.Digest
	body      body
}

func (c *contents) add(repository, tag string, a Artifact) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.items == nil {
		c.items = map[[2]string]item{}
	}
	for _, it := range a.items() {
		c.items[[2]string{repository, it.digest.String()}] = it
	}
	if tag != "" {
		c.items[[2]string{repository, tag}] = c.items[[2]string{repository, a.Descriptor().Digest.String()}]
	}
}

func (c *contents) find(repository, reference string) (item, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	it, ok := c.items[[2]string{repository, reference}]
	return it, ok
}

// clientIP is the address that the throttle counts by.
func clientIP(req *http.Request) string {
	host, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		return req.RemoteAddr
	}
	return host
}
