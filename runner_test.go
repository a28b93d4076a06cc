package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/regtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(envPlayed) != "" {
		os.Exit(playBinary())
	}
	os.Exit(runIn(m))
}

// envRelease names the folder of the release under test.
const envRelease = "PULLONCE_TEST_RELEASE"

// runIn gives the tests a folder for the release, and removes it.
func runIn(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pullonce-release-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Setenv(envRelease, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "making a folder for the release:", err)
		return 1
	}
	return m.Run()
}

// release makes the action as a release tag has it: action.yml, the launcher and the binary, built once.
var release = sync.OnceValues(func() (string, error) {
	dir := os.Getenv(envRelease)
	for _, name := range []string{"action.yml", "bin/pullonce"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o755); err != nil {
			return "", err
		}
	}
	out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "dist", "pullonce-"+runtime.GOOS+"-"+runtime.GOARCH), ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the release: %w\n%s", err, out)
	}
	return dir, nil
})

// job is a job of a workflow on a runner's machine: its folders, and the environment of its steps.
type job struct{ work, action string }

func newJob(t *testing.T) job {
	t.Helper()
	action, err := release()
	require.NoError(t, err)
	j := job{work: t.TempDir(), action: action}
	for _, dir := range []string{"home", "app/app", "_temp/_runner_file_commands", "_temp/_github_workflow"} {
		require.NoError(t, os.MkdirAll(filepath.Join(j.work, dir), 0o755))
	}
	return j
}

// environment is that of one of the files in testdata/runner, on top of the machine's.
func (j job) environment(t *testing.T, kind string) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, name := range []string{"machine", kind} {
		data, err := os.ReadFile(filepath.Join("testdata", "runner", name+".env"))
		require.NoError(t, err)
		for line := range strings.Lines(string(data)) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
				env[name] = strings.NewReplacer("WORK", j.work, "ACTION", j.action).Replace(value)
			}
		}
	}
	return env
}

// said is what a step left behind.
type said struct {
	code           int
	stdout, stderr string
	outputs        map[string]string
	summary        string
}

// step runs a script as the runner does: from a file, by the shell, in the workspace, with exactly the environment.
func (j job) step(t *testing.T, env map[string]string, script string) said {
	t.Helper()
	for _, name := range []string{"GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE"} {
		if env[name] != "" {
			require.NoError(t, os.WriteFile(env[name], nil, 0o644))
		}
	}
	file := filepath.Join(j.work, "_temp", "step.sh")
	require.NoError(t, os.WriteFile(file, []byte(script), 0o644))
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-e", file)
	cmd.Dir = filepath.Join(j.work, "app", "app")
	cmd.Env = []string{} // not nil, which would be ours
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		_, exited := errors.AsType[*exec.ExitError](err)
		require.True(t, exited, err)
	}
	s := said{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String(), outputs: map[string]string{}}
	if env["GITHUB_OUTPUT"] != "" {
		for line := range strings.Lines(read(t, env["GITHUB_OUTPUT"])) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			s.outputs[name] = value
		}
		s.summary = read(t, env["GITHUB_STEP_SUMMARY"])
	}
	return s
}

// uses runs the action's last step, with the inputs and, under the names of the environment, what the step before it hands over.
func (j job) uses(t *testing.T, with, runtime map[string]string) said {
	t.Helper()
	a := readAction(t, "action.yml")
	main := a.Runs.Steps[len(a.Runs.Steps)-1]
	env := j.environment(t, "composite")
	for name := range main.Env {
		env[name] = runtime[name]
	}
	for name, input := range a.Inputs {
		value, given := with[name]
		if !given {
			value = input.Default
		}
		env["PULLONCE_INPUT_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))] = value
	}
	maps.DeleteFunc(runtime, func(name, _ string) bool { _, ok := main.Env[name]; return ok })
	maps.Copy(env, runtime)
	return j.step(t, env, main.Run)
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// serve starts a registry on loopback that has library/redis:7, and returns it with the image's reference.
func serve(t *testing.T, o regtest.Options) (*regtest.Registry, string) {
	t.Helper()
	reg := regtest.New(o)
	reg.Add("library/redis:7", regtest.RandomImage(1, 2, 20_000))
	server, err := reg.Start(regtest.Listen{Addr: "127.0.0.1:0"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	return reg, server.Host + "/library/redis:7"
}

func TestStepsOfTheComposite(t *testing.T) {
	t.Parallel()
	_, ref := serve(t, regtest.Options{})
	j := newJob(t)
	primed := j.uses(t, map[string]string{"mode": "prime", "images": ref, "store": "dir:.pullonce"}, nil)
	require.Zero(t, primed.code, primed)
	require.Equal(t, "success", primed.outputs["result"])
	require.Equal(t, "false", primed.outputs["cache-hit"])
	require.Contains(t, primed.summary, "pullonce prime: success")
	require.FileExists(t, primed.outputs["report"])
	require.FileExists(t, filepath.Join(j.work, "app", "app", primed.outputs["path"], "image.tar"))

	loaded := j.uses(t, map[string]string{"mode": "load", "images": ref, "store": "dir:.pullonce", "into": "none"}, nil)
	require.Zero(t, loaded.code, loaded)
	require.Equal(t, "true", loaded.outputs["cache-hit"])
	require.Equal(t, primed.outputs["key"], loaded.outputs["key"])

	needs := `{"prime": {"result": "success", "outputs": {}}, "lane": {"result": "skipped", "outputs": {}}}`
	judged := j.uses(t, map[string]string{"mode": "gate", "jobs": needs}, nil)
	require.Equal(t, 1, judged.code, judged)
	require.Equal(t, "failure", judged.outputs["result"])
	require.Equal(t, `["lane"]`, judged.outputs["skipped"])
	require.Contains(t, judged.summary, "pullonce gate: failure")
}

func TestStepsOfTheCompositeWithoutToken(t *testing.T) {
	t.Parallel()
	_, ref := serve(t, regtest.Options{})
	j := newJob(t)
	primed := j.uses(t, map[string]string{"mode": "prime", "images": ref}, nil)
	require.Equal(t, 1, primed.code, primed)
	require.Equal(t, 1, strings.Count(primed.stdout, "::error "), primed.stdout)
	require.Regexp(t, `(?m)^::error .*dir:\.pullonce.*official`, primed.stdout)
	require.Equal(t, "failure", primed.outputs["result"])

	loaded := j.uses(t, map[string]string{"mode": "load", "images": ref, "into": "none"}, nil)
	require.Zero(t, loaded.code, loaded)
	require.Regexp(t, `(?m)^::warning .*dir:\.pullonce.*official`, loaded.stdout)
	require.NotContains(t, loaded.stdout, "::error ")
	require.Equal(t, "degraded", loaded.outputs["result"])
}

// A run: step of a workflow is given the runner's files and no inputs.
func TestRunStep(t *testing.T) {
	t.Parallel()
	_, ref := serve(t, regtest.Options{})
	j := newJob(t)
	env := j.environment(t, "run")
	primed := j.step(t, env, j.action+"/bin/pullonce prime --images "+ref+" --store dir:.pullonce\n")
	require.Zero(t, primed.code, primed)
	require.Equal(t, "success", primed.outputs["result"])
	require.Contains(t, primed.summary, "pullonce prime: success")

	env["INPUT_IMAGES"], env["INPUT_STORE"] = "of:another", "action"
	loaded := j.step(t, env, j.action+"/bin/pullonce load --images "+ref+" --store dir:.pullonce --into none\n")
	require.Zero(t, loaded.code, loaded)
	require.Equal(t, "true", loaded.outputs["cache-hit"])

	told := j.step(t, env, j.action+"/bin/pullonce prime --images "+ref+"\n")
	require.Equal(t, 1, told.code, told)
	require.Regexp(t, `(?m)^::error .*uses:.*dir:\.pullonce`, told.stdout)
}

func TestEmptyEnvironment(t *testing.T) {
	t.Parallel()
	_, ref := serve(t, regtest.Options{})
	j := newJob(t)
	program := filepath.Join(j.action, "dist", "pullonce-"+runtime.GOOS+"-"+runtime.GOARCH)
	primed := j.step(t, nil, program+" prime --images "+ref+" --store dir:.pullonce\n")
	require.Zero(t, primed.code, primed)
	require.NotContains(t, primed.stdout+primed.stderr, "::")

	told := j.step(t, nil, program+" prime --images "+ref+"\n")
	require.Equal(t, 2, told.code, told)
	require.Regexp(t, `(?m)^error: .*HOME is not set$`, told.stderr)
	require.Regexp(t, `(?m)^hint: .*dir:PATH`, told.stderr)

	action := j.step(t, nil, program+" action\n")
	require.Equal(t, 2, action.code, "started as the action, without its inputs")
	require.Regexp(t, `(?m)^hint: mode is one of plan, prime, load, gate`, action.stderr)
}

// commands are the lines of a log that the runner takes for commands.
func commands(log string) []string {
	var found []string
	for line := range strings.Lines(log) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "::") || strings.Contains(line, "##[") {
			found = append(found, line)
		}
	}
	return found
}

// names are those of commands, in order and each once.
func names(commands []string) []string {
	var all []string
	for _, command := range commands {
		name, _, _ := strings.Cut(strings.TrimPrefix(command, "::"), "::")
		name, _, _ = strings.Cut(name, " ")
		all = append(all, name)
	}
	return slices.Compact(slices.Sorted(slices.Values(all)))
}
