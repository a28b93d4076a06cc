package registry

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseChallenge(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		headers    []string
		scheme     string // "" is none
		parameters map[string]string
	}{
		"bearer": {
			headers:    []string{`Bearer realm="https://auth.example/token",service="r.example",scope="repository:a/b:pull,push"`},
			scheme:     "bearer",
			parameters: map[string]string{"realm": "https://auth.example/token", "service": "r.example", "scope": "repository:a/b:pull,push"},
		},
		"blanks and bare values": {
			headers:    []string{`bearer Realm = "https://a.example" , service=r.example, error="x"`},
			scheme:     "bearer",
			parameters: map[string]string{"realm": "https://a.example", "service": "r.example", "error": "x"},
		},
		"escaped quote":      {headers: []string{`Basic realm="a\"b"`}, scheme: "basic", parameters: map[string]string{"realm": `a"b`}},
		"the second will do": {headers: []string{"Negotiate", "Basic realm=x"}, scheme: "basic", parameters: map[string]string{"realm": "x"}},
		"no realm":           {headers: []string{`Bearer service="x"`}},
		"unterminated":       {headers: []string{`Bearer realm="https://a.example`}, scheme: "bearer", parameters: map[string]string{"realm": "https://a.example"}},
		"none":               {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, ok := parseChallenge(http.Header{"Www-Authenticate": tc.headers})
			require.Equal(t, tc.scheme != "", ok)
			require.Equal(t, tc.scheme, c.Scheme)
			require.Equal(t, tc.parameters, c.Parameters)
		})
	}
}
