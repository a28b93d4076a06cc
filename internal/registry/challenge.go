package registry

import (
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// challenge is what a host asks for before it lets a request in (RFC 9110, section 11.6.1).
type challenge struct {
	transport.Challenge
}

// basic says that the host wants user and password themselves, not a token.
func (c challenge) basic() bool { return c.Scheme == "basic" }

// parseChallenge finds the first challenge in an answer that this client can meet.
func parseChallenge(h http.Header) (challenge, bool) {
	for _, value := range h.Values("Www-Authenticate") {
		scheme, rest, _ := strings.Cut(strings.TrimSpace(value), " ")
		c := challenge{transport.Challenge{Scheme: strings.ToLower(scheme), Parameters: parseParameters(rest)}}
		if c.basic() || c.Scheme == "bearer" && c.Parameters["realm"] != "" {
			return c, true
		}
	}
	return challenge{}, false
}

// parseParameters reads `a="b",c=d`. A quoted value may hold commas, as scopes do.
func parseParameters(s string) map[string]string {
	parameters := map[string]string{}
	for s != "" {
		key, rest, ok := strings.Cut(s, "=")
		if !ok {
			break
		}
		var value string
		value, s = cutValue(strings.TrimLeft(rest, " \t"))
		parameters[strings.ToLower(strings.Trim(key, ", \t"))] = value
	}
	return parameters
}

// cutValue takes one value, quoted or not, from the start of s.
func cutValue(s string) (value, rest string) {
	if !strings.HasPrefix(s, `"`) {
		value, rest, _ = strings.Cut(s, ",")
		return strings.TrimSpace(value), rest
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:]
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}
