package registry

import (
	"net/url"
	"strings"
	"sync"
)

// minSecret is the length, in bytes, below which a secret is not looked for in texts: it would be found everywhere.
const minSecret = 4

// secrets are the passwords and tokens that were sent. A registry that repeats one in its answers gives it to everybody
// who reads the log. Safe for concurrent use.
type secrets struct {
	mu    sync.Mutex
	known map[string]bool
}

// keepSecret remembers secrets that are about to be sent, and tells of those that are new.
func (c *Client) keepSecret(values ...string) {
	for _, value := range values {
		if value != "" && c.secrets.add(value) && c.options.Secret != nil {
			c.options.Secret(value)
		}
	}
}

// add says whether the secret is new.
func (s *secrets) add(value string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[value] {
		return false
	}
	if s.known == nil {
		s.known = map[string]bool{}
	}
	s.known[value] = true
	return true
}

// hide takes the secrets out of a text, as they are and as forms and URLs have them.
func (s *secrets) hide(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for value := range s.known {
		if len(value) >= minSecret {
			text = strings.NewReplacer(value, "…", url.QueryEscape(value), "…", url.PathEscape(value), "…").Replace(text)
		}
	}
	return text
}
