package textfile_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/textfile"
)

func TestAWildcardDoesNotStandForALeadingDot(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{}
	for _, name := range []string{"a.yaml", ".b.yaml", ".github/c.yaml", "d/.e/f.yaml", "d/g.yaml", ".git/h.yaml"} {
		files[name] = &fstest.MapFile{}
	}
	for pattern, want := range map[string][]string{
		"*.yaml":             {"a.yaml"},
		"**/*.yaml":          {"a.yaml", "d/g.yaml"},
		".*.yaml":            {".b.yaml"},
		".github/*.yaml":     {".github/c.yaml"},
		"{d,.github}/*.yaml": {".github/c.yaml", "d/g.yaml"},
		"d/.e/*":             {"d/.e/f.yaml"},
	} {
		found, err := textfile.Glob(files, pattern)
		require.NoError(t, err, pattern)
		require.Equal(t, want, found, pattern)
	}
}
