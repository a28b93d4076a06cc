//go:build linux

package app

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/bench/internal/result"
	"github.com/pullonce/pullonce/bench/internal/result/resulttest"
)

// run runs the command with arguments.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = Main(t.Context(), Process{Args: append([]string{"bench"}, args...), Environ: os.Environ(), Stdout: &out, Stderr: &errs})
	return code, out.String(), errs.String()
}

func TestWrongUse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"an unknown image":     {[]string{"-images", "M,XL"}, `"XL" is none of small, M, L, set, five`},
		"an unknown contender": {[]string{"-contenders", "nobody"}, `"nobody" is none of hand-written, `},
		"no list":              {[]string{"-targets", ""}, `"" is none of docker, `},
		"no rounds":            {[]string{"-rounds", "0"}, "rounds must be at least 1"},
		"a line of less":       {[]string{"-bandwidth", "-1"}, "must not be negative"},
		"an argument":          {[]string{"M"}, `"M" is no flag`},
		"no report":            {[]string{"-from", "/nowhere/report.json"}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := run(t, test.args...)
			require.Equal(t, exitUsage, code)
			require.Contains(t, stderr, test.want)
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	code, _, stderr := run(t, "-help")
	require.Equal(t, exitOK, code)
	require.Contains(t, stderr, "Usage: go run ./bench")
	require.Contains(t, stderr, "what is not there is built into it", "-bin names a folder that is written to")
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	f, err := parse(nil, io.Discard)
	require.NoError(t, err)
	o, err := f.options(t.TempDir(), Process{Stderr: io.Discard})
	require.NoError(t, err)
	require.Equal(t, int64(100_000_000), o.Bandwidth)
	require.Equal(t, []string{"tmpfs"}, o.Data)
	require.FileExists(t, filepath.Join(o.Root, "go.mod"))
	require.True(t, filepath.IsAbs(o.Cache))
}

// saved is a report in a file.
func saved(t *testing.T, change func(*result.Report)) string {
	t.Helper()
	r := resulttest.Report()
	change(&r)
	data, err := json.Marshal(r)
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, os.WriteFile(name, data, 0o644))
	return name
}

func TestFromShowsAReportAgain(t *testing.T) {
	t.Parallel()
	from := saved(t, func(*result.Report) {})
	dir := t.TempDir()
	code, stdout, _ := run(t, "-from", from, "-check", "-svg", filepath.Join(dir, "docs", "lanes.svg"), "-json", filepath.Join(dir, "again.json"))
	require.Equal(t, exitOK, code)
	require.Contains(t, stdout, "pullonce to hand-written")
	require.FileExists(t, filepath.Join(dir, "docs", "lanes.svg"))

	var again result.Report
	data, err := os.ReadFile(filepath.Join(dir, "again.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &again))
	require.NotEmpty(t, again.Checks)
	again.Checks = nil
	require.Equal(t, resulttest.Report(), again, "nothing is lost in the file")
}

func TestCheckFailsWhereALimitIsNotMet(t *testing.T) {
	t.Parallel()
	from := saved(t, func(r *result.Report) { resulttest.Slow(&r.Cases[0], "pullonce", 1e12) })
	code, stdout, stderr := run(t, "-from", from, "-check")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stdout, "NOT MET")
	require.Equal(t, "error: a limit is not met\n", stderr)
	code, _, _ = run(t, "-from", from)
	require.Equal(t, exitOK, code, "it was not asked")
}
