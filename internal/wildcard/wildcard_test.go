package wildcard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/wildcard"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true},
		{"", "a", false},
		{"a", "a", true},
		{"a", "A", false},
		{"*", "", true},
		{"*", "a/b", true},
		{"a*", "ab", true},
		{"*a", "ab", false},
		{"a*a", "a", false},
		{"a*b*c", "a-b-b-c", true},
		{"a*b*c", "acb", false},
		{"**", "x", true},
		{"[x]?", "[x]?", true},
		{"[x]", "x", false},
	} {
		require.Equal(t, c.want, wildcard.Match(c.pattern, c.s), "%q against %q", c.s, c.pattern)
	}
}
