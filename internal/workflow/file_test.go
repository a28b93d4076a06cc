package workflow_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/workflow"
)

func TestOutput(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "output")
	require.NoError(t, os.WriteFile(path, []byte("earlier=1"), 0o600)) // a script forgot its line break
	r, _ := newRunner(map[string]string{"GITHUB_OUTPUT": path})
	values := map[string]string{
		"cache-hit": "true", "key": "pullonce-v1-redis-linux-amd64-0123456789abcdef", "keys": `["a","b<<c"]`,
		"empty": "", "equals": "a=b==", "spaces": " a ", "odd": "<<EOF", "unicode": "🐳",
	}
	for name, value := range values {
		require.NoError(t, r.Output(name, value))
	}
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	got, err := readOutputs(string(file))
	require.NoError(t, err)
	values["earlier"] = "1"
	require.Equal(t, values, got)
	require.Equal(t, byte('\n'), file[len(file)-1])
}

func TestOutputRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, output, value, want string
	}{
		{"line feed", "key", "a\nb", `setting output "key": the value has a line break`},
		{"carriage return", "key", "a\rkeys=x", `setting output "key": the value has a line break`},
		{"invalid UTF-8", "key", "\xff", `setting output "key": the value is not UTF-8`},
		{"name with equals", "a=b", "", `setting output "a=b": an output's name holds a-z, 0-9, dash and underscore only`},
		{"no name", "", "", `setting output "": an output's name holds a-z, 0-9, dash and underscore only`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "output")
			r, _ := newRunner(map[string]string{"GITHUB_OUTPUT": path})
			require.EqualError(t, r.Output(tt.output, tt.value), tt.want)
			require.NoFileExists(t, path)
		})
	}
}

func TestFilesThatAreNotThere(t *testing.T) {
	t.Parallel()
	r, _ := newRunner(nil)
	require.ErrorIs(t, r.Output("key", "x"), workflow.ErrNoFile)
	require.EqualError(t, r.Output("key", "x"), `setting output "key": GITHUB_OUTPUT is not set, so nothing can be handed to the runner`)
	require.ErrorIs(t, r.Summary("x", nil, ""), workflow.ErrNoFile)

	gone := filepath.Join(t.TempDir(), "gone", "file")
	r, _ = newRunner(map[string]string{"GITHUB_OUTPUT": gone, "GITHUB_STEP_SUMMARY": gone})
	require.ErrorIs(t, r.Output("key", "x"), os.ErrNotExist)
	require.ErrorIs(t, r.Summary("x", nil, ""), os.ErrNotExist)
}
