package registry

import (
	"net/http"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func FuzzParseChallenge(f *testing.F) {
	for _, seed := range []string{
		`Bearer realm="https://auth.example/token",service="r.example",scope="repository:a/b:pull,push"`,
		`Basic realm=x`, `Bearer realm="\`, `Bearer =,=,"`, `Negotiate`, ``,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		c, ok := parseChallenge(http.Header{"Www-Authenticate": {header}})
		if !ok {
			require.Empty(t, c.Scheme)
			return
		}
		require.True(t, c.basic() || c.Parameters["realm"] != "")
		for key := range c.Parameters {
			require.Equal(t, strings.ToLower(key), key)
		}
	})
}

func FuzzClean(f *testing.F) {
	for _, seed := range []string{"plain", "a\nb", "https://a.example/?sig=x", "\xff\x1b[2J", "dckr_jti_abc", "token=abcdefgh"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out := clean(text)
		require.True(t, utf8.ValidString(out))
		require.LessOrEqual(t, utf8.RuneCountInString(out), maxText+1)
		require.Equal(t, -1, strings.IndexFunc(out, func(r rune) bool { return !unicode.IsPrint(r) }))
		require.NotContains(t, clean("dckr_jti_s3cret "+text), "s3cret")
	})
}
