package registry

import (
	"net"
	"net/netip"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/pullonce/pullonce/internal/pace"
)

const (
	// dockerHub is the Hub's name in references, dockerHubAPI the host that answers for it.
	dockerHub    = "docker.io"
	dockerHubAPI = "registry-1.docker.io"
	// ecrPublic is paced from the start, for as long as requests are anonymous.
	ecrPublic = "public.ecr.aws"
)

// host is one registry host and what the Client has learnt of it. Safe for concurrent use.
type host struct {
	// domain is the name in references and messages, address the one to connect to.
	domain, address string
	// plain says that the host may be spoken to without TLS.
	plain bool
	pace  pacer

	mu        sync.Mutex
	scheme    string // "https" or "http"
	challenge *challenge
	grants    map[string]grant // by repository
	anonymous map[string]bool  // repositories for which the stored credential was refused
	limit     RateLimit
}

// host finds or makes the host for a domain.
func (c *Client) host(domain string) *host {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h, ok := c.hosts[domain]; ok {
		return h
	}
	h := &host{domain: domain, address: domain, scheme: "https", grants: map[string]grant{}, anonymous: map[string]bool{}}
	if domain == dockerHub {
		h.address = dockerHubAPI
	}
	bare := hostname(domain)
	loopback := isLoopback(bare)
	h.plain = loopback || bare == "localhost" || c.options.Insecure != nil && c.options.Insecure(domain)
	if loopback {
		h.scheme = "http"
	}
	if domain == ecrPublic {
		h.pace.SetInterval(pace.ECRPublic)
	}
	c.hosts[domain] = h
	return h
}

// base is the URL that the host's API is below.
func (h *host) base() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.scheme + "://" + h.address + "/v2/"
}

// fallBack makes the host one without TLS, where that is allowed and not known yet.
func (h *host) fallBack() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.plain || h.scheme == "http" {
		return false
	}
	h.scheme = "http"
	return true
}

// registry is the host in go-containerregistry's terms, for its token exchange.
func (h *host) registry() (name.Registry, error) {
	if h.plain {
		return name.NewRegistry(h.address, name.WeakValidation, name.Insecure)
	}
	return name.NewRegistry(h.address, name.WeakValidation)
}

// hostname is domain without port and brackets.
func hostname(domain string) string {
	if host, _, err := net.SplitHostPort(domain); err == nil {
		return host
	}
	return strings.Trim(domain, "[]")
}

func isLoopback(bare string) bool {
	addr, err := netip.ParseAddr(bare)
	return err == nil && addr.Unmap().IsLoopback()
}
