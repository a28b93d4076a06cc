package cache

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/store/actions"
	"github.com/pullonce/pullonce/internal/store/actions/entry"
	"github.com/pullonce/pullonce/internal/store/dir"
)

const key = "pullonce-v1-test-linux-amd64-0123456789abcdef"

// sizes are the layers of an image of less than 1 MB, of 150 MB and of 1.2 GB, in bytes.
var sizes = map[string][]int64{
	"small":  {100_000, 300_000, 32},
	"150 MB": {50_000_000, 100_000_000, 32},
	"1.2 GB": {30_000_000, 1_100_000_000, 32, 70_000_000},
}

// eachWay runs f for each size and for both kinds of URL that the real client tells apart.
func eachWay(t *testing.T, f func(t *testing.T, w *world, img image.Image)) {
	gate(t)
	for name, layers := range sizes {
		img, err := newImage(layers...)
		require.NoError(t, err)
		for _, azure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, azure %t", name, azure), func(t *testing.T) { f(t, newWorld(t, azure), img) })
		}
	}
}

func TestWhatWeSaveTheOfficialStepsRestore(t *testing.T) {
	eachWay(t, func(t *testing.T, w *world, img image.Image) {
		require.NoError(t, w.store(t).Save(t.Context(), key, img))
		workspace := t.TempDir()
		require.Equal(t, `"`+key+`"`, w.client(t, workspace, "restore", key, entry.Path(key)))

		files, err := filepath.Glob(filepath.Join(workspace, ".pullonce", "*", "*"))
		require.NoError(t, err)
		require.Equal(t, []string{filepath.Join(workspace, entry.Path(key), "image.tar")}, files)
		requireArchive(t, files[0], img)

		restored, err := dir.New(filepath.Join(workspace, ".pullonce"))
		require.NoError(t, err)
		got, err := restored.Open(t.Context(), key)
		require.NoError(t, err)
		require.NoError(t, image.Verify(t.Context(), got))
	})
}

func TestWhatTheOfficialStepsSaveWeLoad(t *testing.T) {
	eachWay(t, func(t *testing.T, w *world, img image.Image) {
		w.saveAsTheyDo(t, img)

		got, err := w.store(t).Open(t.Context(), key)
		require.NoError(t, err)
		want, err := sumOf(t.Context(), img)
		require.NoError(t, err)
		have, err := sumOf(t.Context(), got)
		require.NoError(t, err)
		require.Equal(t, want, have)
	})
}

// saveAsTheyDo saves img as a directory store with the official steps around it does.
func (w *world) saveAsTheyDo(t *testing.T, img image.Image) {
	t.Helper()
	workspace := t.TempDir()
	directory, err := dir.New(filepath.Join(workspace, ".pullonce"))
	require.NoError(t, err)
	require.NoError(t, directory.Save(t.Context(), key, img))
	require.Equal(t, "1", w.client(t, workspace, "save", key, entry.Path(key)))
	require.Equal(t, actions.Version(key), w.Entries()[0].Version)
}

// requireArchive holds a file to img's archive, byte for byte.
func requireArchive(t *testing.T, path string, img image.Image) {
	t.Helper()
	want, err := sumOf(t.Context(), img)
	require.NoError(t, err)
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	have, err := digest.SHA256.FromReader(f)
	require.NoError(t, err)
	require.Equal(t, want, have)
}

// client runs the real client in a workspace. It gives the outcome; a warning or an error of its fails the test.
func (w *world) client(t *testing.T, workspace string, args ...string) string {
	t.Helper()
	node := exec.CommandContext(t.Context(), "node", append([]string{
		"--import", filepath.Join(w.modules, "loopback.mjs"), filepath.Join(w.modules, "client.mjs"),
	}, args...)...)
	node.Dir = workspace
	node.Env = append(os.Environ(),
		"ACTIONS_CACHE_SERVICE_V2=true", "ACTIONS_RESULTS_URL="+w.URL, "ACTIONS_RUNTIME_TOKEN=token",
		"GITHUB_WORKSPACE="+workspace, "RUNNER_TEMP="+t.TempDir(), "RUNNER_DEBUG=",
	)
	var stderr strings.Builder
	node.Stderr = &stderr
	output, err := node.Output()
	require.NoError(t, err, "%s%s", output, stderr.String())
	require.NotContains(t, string(output), "::warning::")
	require.NotContains(t, string(output), "::error::")
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	outcome := lines[len(lines)-1]
	require.True(t, json.Valid([]byte(outcome)), "%s", output)
	return outcome
}
