package cli_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cli"
	"github.com/pullonce/pullonce/internal/preflight/apitest"
	"github.com/pullonce/pullonce/internal/regtest"
)

// step runs a mode in this process as a step of a workflow, with the inputs, and returns the outputs that it wrote.
func step(t *testing.T, dir string, inputs map[string]string) (cli.ExitCode, map[string]string) {
	t.Helper()
	env := map[string]string{
		"GITHUB_ACTIONS": "true", "RUNNER_TEMP": dir, "HOME": dir,
		"GITHUB_OUTPUT": filepath.Join(t.TempDir(), "output"), "GITHUB_STEP_SUMMARY": filepath.Join(dir, "summary"),
	}
	for name, value := range inputs {
		env["PULLONCE_INPUT_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))] = value
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer log.Close()
	code := cli.Main(t.Context(), cli.Process{
		Args: []string{"action"}, Stdout: log, Stderr: log,
		LookupEnv: func(name string) (string, bool) { value, ok := env[name]; return value, ok },
	})
	return code, outputsIn(t, env["GITHUB_OUTPUT"])
}

func outputsIn(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	outputs := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		require.True(t, ok, line)
		require.NotContains(t, outputs, name, "an output is written once")
		outputs[name] = value
	}
	return outputs
}

// TestModesWriteTheOutputsThatTheyDeclare runs each mode to each of its ends.
func TestModesWriteTheOutputsThatTheyDeclare(t *testing.T) {
	t.Parallel()
	reg := regtest.New(regtest.Options{})
	reg.Add("library/redis:7", regtest.RandomImage(1, 1, 1000))
	server, err := reg.Start(regtest.Listen{Addr: "127.0.0.1:0"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	good, absent := server.Host+"/library/redis:7", server.Host+"/library/absent:1"

	dir := t.TempDir()
	stop, err := serveAPI(&apitest.Server{Denied: []string{"secrets: delete"}}, dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stop()) })
	kubeconfig := filepath.Join(dir, "kubeconfig")
	manifest := filepath.Join(dir, "list.txt")
	require.NoError(t, os.WriteFile(manifest, []byte("redis:7\n"), 0o644))
	ends := map[string][]struct {
		inputs map[string]string
		code   cli.ExitCode
		result string
	}{
		"plan": {{map[string]string{"images": good}, cli.ExitOK, ""}},
		"prime": {
			{map[string]string{"images": good}, cli.ExitOK, "success"},
			{map[string]string{"images": absent}, cli.ExitNo, "failure"},
		},
		"load": {
			{map[string]string{"images": good, "into": "none"}, cli.ExitOK, "success"},
			{map[string]string{"images": absent, "into": "none"}, cli.ExitOK, "degraded"},
			{map[string]string{"images": absent, "into": "none", "on-miss": "fail"}, cli.ExitNo, "failure"},
			{map[string]string{"images": good + " lanes=a", "into": "none", "lane": "b"}, cli.ExitOK, "success"},
		},
		"gate": {
			{map[string]string{"jobs": `{"prime":{"result":"success"}}`}, cli.ExitOK, "success"},
			{map[string]string{"jobs": `{"prime":{"result":"failure"}}`}, cli.ExitNo, "failure"},
		},
		"audit": {
			{map[string]string{"images": "redis:7", "manifests": manifest}, cli.ExitOK, "success"},
			{map[string]string{"images": "redis:8", "manifests": manifest}, cli.ExitNo, "failure"},
		},
		"preflight": {
			{map[string]string{"kubeconfig": kubeconfig, "permissions": "pods: get"}, cli.ExitOK, "success"},
			{map[string]string{"kubeconfig": kubeconfig}, cli.ExitNo, "failure"},
		},
	}
	modes, err := cli.Modes()
	require.NoError(t, err)
	for _, mode := range modes {
		require.NotEmpty(t, ends[mode.Name], "mode %s is run to no end here", mode.Name)
		for _, end := range ends[mode.Name] {
			inputs := maps.Clone(end.inputs)
			inputs["mode"] = mode.Name
			if mode.Name == "prime" || mode.Name == "load" {
				inputs["store"] = "dir:" + filepath.Join(dir, "store")
			}
			code, outputs := step(t, dir, inputs)
			require.Equal(t, end.code, code, inputs)
			require.Equal(t, end.result, outputs["result"], inputs)
			require.ElementsMatch(t, mode.Outputs, slices.Collect(maps.Keys(outputs)), inputs)
		}
	}
}
