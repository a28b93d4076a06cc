package actions

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// access is what a run may do with the cache, as far as it can be told before anything is asked.
type access struct {
	// noRead and readOnly are why entries can't be read, or not saved; "" where they can, or nobody knows.
	noRead, readOnly string
	// scopes are the branches whose entries can be seen.
	scopes []string
}

// The permissions in a scope of the token.
const (
	mayRead  = 1
	mayWrite = 2
)

// scope is one element of the token's claim "ac".
type scope struct {
	Scope      string
	Permission int
}

// parseAccess reads the token's scopes and the mode. The token is a JWT that is not for us to verify; one that can't be
// read forbids nothing: the service has the last word.
func parseAccess(token, mode string) access {
	var a access
	if scopes := parseScopes(token); len(scopes) > 0 {
		for _, s := range scopes {
			a.scopes = append(a.scopes, s.Scope)
		}
		allows := func(permission int) bool {
			return slices.ContainsFunc(scopes, func(s scope) bool { return s.Permission&permission != 0 })
		}
		if !allows(mayRead) {
			a.noRead = "the run's token may not read the cache"
		}
		if !allows(mayWrite) {
			a.readOnly = fmt.Sprintf("the run's token may only read the cache (%s)", a.scopeNames())
		}
	}
	switch mode = strings.ToLower(strings.TrimSpace(mode)); mode {
	case "none", "write-only":
		a.noRead = fmt.Sprintf("cache-mode is %q", mode)
	}
	switch mode {
	case "none", "read":
		a.readOnly = fmt.Sprintf("cache-mode is %q", mode)
	}
	return a
}

// scopeNames are the scopes for people.
func (a access) scopeNames() string {
	if len(a.scopes) == 0 {
		return "unknown"
	}
	return clean(strings.Join(a.scopes, ", "))
}

func parseScopes(token string) []scope {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return nil
	}
	var claims struct {
		AC string `json:"ac"` // a list in JSON, in a string
	}
	var scopes []scope
	if json.Unmarshal(payload, &claims) != nil || json.Unmarshal([]byte(claims.AC), &scopes) != nil {
		return nil
	}
	return scopes
}
