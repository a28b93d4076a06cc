package registry

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RateLimit is what Docker Hub says of its limit (docs.docker.com, "Docker Hub pull usage and limits").
type RateLimit struct {
	// Limit and Remaining count pulls within Window.
	Limit, Remaining int
	// Window is the length of the window.
	Window time.Duration
	// Source is what is counted by, an address or an account id.
	Source string
}

// IsZero says that nothing was said.
func (l RateLimit) IsZero() bool { return l == RateLimit{} }

// String is one phrase for a summary.
func (l RateLimit) String() string {
	s := fmt.Sprintf("%d of %d pulls left in %s", l.Remaining, l.Limit, l.Window)
	if l.Source != "" {
		s += " for " + l.Source
	}
	return s
}

// parseRateLimit reads "ratelimit-limit: 100;w=21600" and its companions.
func parseRateLimit(h http.Header) (RateLimit, bool) {
	limit, window, ok := parseQuota(h.Get("Ratelimit-Limit"))
	if !ok {
		return RateLimit{}, false
	}
	remaining, _, ok := parseQuota(h.Get("Ratelimit-Remaining"))
	if !ok {
		return RateLimit{}, false
	}
	return RateLimit{Limit: limit, Remaining: remaining, Window: window, Source: clean(h.Get("Docker-Ratelimit-Source"))}, true
}

// parseQuota reads "100;w=21600", the window in seconds.
func parseQuota(s string) (n int, window time.Duration, ok bool) {
	count, rest, _ := strings.Cut(s, ";")
	n, err := strconv.Atoi(strings.TrimSpace(count))
	if err != nil || n < 0 {
		return 0, 0, false
	}
	if _, w, found := strings.Cut(rest, "w="); found {
		seconds, err := strconv.ParseUint(strings.TrimSpace(w), 10, 31)
		if err != nil {
			return 0, 0, false
		}
		window = time.Duration(seconds) * time.Second
	}
	return n, window, true
}

// noteLimit keeps the newest word of the host on its limit.
func (h *host) noteLimit(header http.Header) {
	l, ok := parseRateLimit(header)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limit = l
}

// RateLimits are the newest words of the hosts on their limits, by domain, also of those from which nothing could be pulled.
// Hosts that say nothing are not among them.
func (c *Client) RateLimits() map[string]RateLimit {
	c.mu.Lock()
	defer c.mu.Unlock()
	limits := map[string]RateLimit{}
	for domain, h := range c.hosts {
		if l := h.lastLimit(); !l.IsZero() {
			limits[domain] = l
		}
	}
	return limits
}

func (h *host) lastLimit() RateLimit {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.limit
}
