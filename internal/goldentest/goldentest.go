// Package goldentest compares what tests get with golden files, and writes those anew where -update says so. It does not
// know what is in them.
package goldentest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Updating says whether golden files are written anew.
func Updating() bool { return *update }

// Equal holds got to a golden file, which is made where it is missing and may be.
func Equal(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "%s: -update writes it anew", file)
}

// maxLines bounds a golden file of Archives: it is read by people.
const maxLines = 60

// Archives holds what describe says of each testdata/NAME.txtar to testdata/NAME.golden.
func Archives(t *testing.T, describe func(t *testing.T, archive *txtar.Archive) string) {
	t.Helper()
	archives, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, archives)
	goldens, err := filepath.Glob("testdata/*.golden")
	require.NoError(t, err)
	if !*update {
		require.Len(t, goldens, len(archives), "one golden file for each archive and none besides")
	}
	for _, archive := range archives {
		name := strings.TrimSuffix(archive, ".txtar")
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			parsed, err := txtar.ParseFile(archive)
			require.NoError(t, err)
			got := describe(t, parsed)
			Equal(t, name+".golden", got)
			require.LessOrEqual(t, strings.Count(got, "\n"), maxLines)
		})
	}
}
