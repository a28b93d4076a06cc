package regtest

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tokenPath is where a registry with bearer auth hands tokens out.
const tokenPath = "/token"

// Auth asks for credentials.
type Auth struct {
	// Basic asks for user and password with every request; else they are traded for a bearer token, as the
	// distribution project's token specification has it.
	Basic bool
	// User and Password are the only credentials that are right. Wrong ones are refused everywhere, also for what
	// everybody may read.
	User, Password string
	// Public are the repositories that anybody may read, with an anonymous token; "*" is all of them.
	Public []string
	// TTL is how long a token holds; 0 is 300 s.
	TTL time.Duration
}

// tokens keeps the tokens that were handed out.
type tokens struct {
	auth   Auth
	mu     sync.Mutex
	issued int
	live   map[string]grant
}

// grant is what a token is good for.
type grant struct {
	user  bool // it was issued to the user, so it opens everything
	until time.Time
}

// RevokeTokens makes every token that was handed out invalid.
func (r *Registry) RevokeTokens() {
	if r.tokens == nil {
		return
	}
	r.tokens.mu.Lock()
	defer r.tokens.mu.Unlock()
	clear(r.tokens.live)
}

// authorized answers 401 in place of next where the request lacks what it needs.
func (r *Registry) authorized(e *entry, next http.Handler) http.Handler {
	t := r.tokens
	if t == nil || e.Kind == KindToken {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if t.opens(req, e) {
			next.ServeHTTP(w, req)
			return
		}
		w.Header().Set("WWW-Authenticate", t.challenge(req, e))
		writeError(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
	})
}

// opens says whether the request may do what it asks.
func (t *tokens) opens(req *http.Request, e *entry) bool {
	if t.auth.Basic {
		user, password, given := req.BasicAuth()
		if given {
			return t.known(user, password)
		}
		return e.Kind != KindPing && t.public(e.Repository)
	}
	token, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	g, ok := t.live[token]
	return ok && time.Now().Before(g.until) && (g.user || e.Kind == KindPing || t.public(e.Repository))
}

func (t *tokens) challenge(req *http.Request, e *entry) string {
	if t.auth.Basic {
		return `Basic realm="regtest"`
	}
	scheme := "http"
	if req.TLS != nil {
		scheme = "https"
	}
	challenge := fmt.Sprintf("Bearer realm=%q,service=%q", scheme+"://"+req.Host+tokenPath, req.Host)
	if e.Repository != "" {
		challenge += fmt.Sprintf(",scope=%q", "repository:"+e.Repository+":pull")
	}
	return challenge
}

// issue answers a request for a token.
func (t *tokens) issue(w http.ResponseWriter, req *http.Request) {
	user, password, given := req.BasicAuth()
	if given && !t.known(user, password) {
		writeError(w, http.StatusUnauthorized, "UNAUTHORIZED", "authorization token has expired")
		return
	}
	ttl := t.auth.TTL
	if ttl == 0 {
		ttl = 300 * time.Second
	}
	token := t.mint(grant{user: given, until: time.Now().Add(ttl)})
	writeBody(w, http.StatusOK, "application/json", fmt.Sprintf(`{"token":%q,"access_token":%q,"expires_in":%d}`, token, token, int(ttl.Seconds())))
}

func (t *tokens) mint(g grant) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.issued++
	token := "regtest-token-" + strconv.Itoa(t.issued)
	if t.live == nil {
		t.live = map[string]grant{}
	}
	t.live[token] = g
	return token
}

func (t *tokens) known(user, password string) bool {
	return subtle.ConstantTimeCompare([]byte(user+"\n"+password), []byte(t.auth.User+"\n"+t.auth.Password)) == 1
}

func (t *tokens) public(repository string) bool {
	return slices.Contains(t.auth.Public, "*") || slices.Contains(t.auth.Public, repository)
}
