package oneline_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/oneline"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ in, want string }{
		"plain":               {"no such image", "no such image"},
		"lines":               {"a\r\nb\n\n  c\t\n", "a b c"},
		"a command, a cursor": {"::error::x\x1b[2Jy", "::error::x\uFFFD[2Jy"},
		"no UTF-8":            {"a\xffb", "a\uFFFDb"},
		"too long":            {strings.Repeat("a", 1000) + "end", strings.Repeat("a", 200) + " … " + strings.Repeat("a", 197) + "end"},
		"nothing":             {"\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, oneline.Of(test.in))
		})
	}
}

func FuzzOf(f *testing.F) {
	f.Add("a\nb")
	f.Add(strings.Repeat("é\x00", 5000))
	f.Fuzz(func(t *testing.T, s string) {
		line := oneline.Of(s)
		require.True(t, utf8.ValidString(line))
		require.LessOrEqual(t, utf8.RuneCountInString(line), oneline.Max+3)
		require.NotContains(t, line, "\n")
		require.Equal(t, line, oneline.Of(line))
	})
}
