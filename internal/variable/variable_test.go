package variable_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/variable"
)

func TestFill(t *testing.T) {
	t.Parallel()
	values := map[string]string{"A": "a", "E": ""}
	lookup := func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	for s, want := range map[string]string{
		"plain": "plain", "$A-${A}": "a-a", "$$A": "$A", "$1$": "$1$", "$A_": "A_ is not set", "${E:-x}": "x", "${E-x}": "",
		"${N-${A}}": "a", "${A:+y}": "y", "${N:+y}": "", "${N:?why}": "N is required: why", "${N?}": "N is required", "$N": "N is not set",
		"${A": "not closed", "${}": "no valid variable", "${A%x}": "no valid variable",
		strings.Repeat("${N:-", 100) + strings.Repeat("}", 100): "nested too deeply",
	} {
		got, err := variable.Fill(s, lookup)
		if err != nil {
			require.Empty(t, got)
			require.ErrorContains(t, err, want, s)
			continue
		}
		require.Equal(t, want, got, s)
	}
	_, err := variable.Fill("$N", lookup)
	require.Equal(t, variable.UnsetError{Name: "N"}, err)
}
