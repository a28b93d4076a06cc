package registry

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, out string }{
		"plain text":         {"manifest unknown", "manifest unknown"},
		"token id":           {"token dckr_jti_Ab-1_x= refused", "token dckr_…= refused"},
		"signed query":       {`Get "https://cdn.example/blob?X-Amz-Signature=s3cret&x=1": EOF`, `Get "https://cdn.example/blob?…": EOF`},
		"fragment":           {"see https://cdn.example/blob#sig=s3cret now", "see https://cdn.example/blob?… now"},
		"user information":   {"proxy http://me:s3cret@proxy.example:3128 refuses", "proxy http://…@proxy.example:3128 refuses"},
		"bearer":             {"Authorization: Bearer s3cret.s3cret-s3cret", "Authorization: Bearer …"},
		"basic":              {"sent Basic dXNlcjpzM2NyZXQ=", "sent Basic …"},
		"JSON web token":     {"got eyJhbGciOi.eyJzdWIi.c2ln back", "got … back"},
		"token in JSON":      {`{"access_token":"s3cret-s3cret"}`, `{"access_token":"…"}`},
		"password":           {"password=s3cret-s3cret", "password=…"},
		"GitHub token":       {"as ghp_s3crets3crets3cret", "as …"},
		"word token stays":   {"getting a token: 503 Service Unavailable", "getting a token: 503 Service Unavailable"},
		"the cause stays":    {"getting a token: invalid realm", "getting a token: invalid realm"},
		"token in a text":    {"refused token: s3crets3crets3cret", "refused token: …"},
		"quoted token":       {`token: "s3cret"`, `token: "…"`},
		"bare token":         {"token:s3cret", "token:…"},
		"workflow command":   {"\n::error::boo\r\n", "::error::boo"},
		"terminal escape":    {"\x1b[2Jgone\a", "[2Jgone"},
		"direction override": {"abc\u202edef", "abc def"},
		"invalid UTF-8":      {"a\xffb", "a�b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.out, clean(tc.in))
		})
	}
}

func TestCleanCutsLongText(t *testing.T) {
	t.Parallel()
	out := clean(strings.Repeat("ü", 100_000))
	require.Equal(t, maxText+1, utf8.RuneCountInString(out))
	require.NotContains(t, clean(strings.Repeat("x ", maxText/2-1)+"token=s3cret-that-spans-the-cut"), "s3c")
}
