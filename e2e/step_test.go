//go:build linux

package e2e

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/report"
)

// step is what a step of a workflow that runs pullonce came to, as the runner sees it.
type step struct {
	code    int
	log     string
	outputs map[string]string
	summary string
	report  report.Report
}

// annotations are the commands in the log that people see beside the run.
func (s step) annotations() []string {
	var found []string
	for line := range strings.Lines(s.log) {
		for _, level := range []string{"::error", "::warning", "::notice"} {
			if strings.HasPrefix(line, level) {
				found = append(found, strings.TrimSpace(line))
			}
		}
	}
	return found
}

// requireAnnotations holds the step to exactly one annotation for each text, which contains it, in any order.
func (s step) requireAnnotations(t *testing.T, texts ...string) {
	t.Helper()
	left := s.annotations()
	for _, text := range texts {
		i := slices.IndexFunc(left, func(a string) bool { return matches(text, a) })
		require.GreaterOrEqual(t, i, 0, "no annotation %q in %q", text, left)
		left = slices.Delete(left, i, i+1)
	}
	require.Empty(t, left)
}

// matches says whether an annotation has the words of text, which "…" divides, in their order.
func matches(text, annotation string) bool {
	for words := range strings.SplitSeq(text, "…") {
		_, rest, ok := strings.Cut(annotation, words)
		if !ok {
			return false
		}
		annotation = rest
	}
	return true
}

// sources are where the images came from.
func (s step) sources() []report.Source {
	var sources []report.Source
	for _, row := range s.report.Images {
		sources = append(sources, row.Source)
	}
	return sources
}

// runner is the part of a machine that a runner gives to one step.
type runner struct {
	dir string
	env map[string]string
}

// newRunner makes the folders of a job on a machine.
func newRunner(t *testing.T, env map[string]string) *runner {
	t.Helper()
	r := &runner{dir: tempDir(t)}
	r.env = map[string]string{
		"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "push", "GITHUB_EVENT_PATH": r.path("event.json"), "GITHUB_SERVER_URL": "https://github.com",
		"GITHUB_OUTPUT": r.path("output"), "GITHUB_STEP_SUMMARY": r.path("summary"), "RUNNER_TEMP": r.path("temp"), "HOME": r.path("home"),
		"PATH": os.Getenv("PATH"),
	}
	maps.Copy(r.env, env)
	writeFile(t, r.dir, "event.json", "{}")
	for _, name := range []string{"temp", "home", "workspace"} {
		require.NoError(t, os.Mkdir(r.path(name), 0o755))
	}
	return r
}

func (r *runner) path(name string) string { return filepath.Join(r.dir, name) }

// run runs the program as the action's last step does, with these inputs.
func (r *runner) run(t *testing.T, inputs map[string]string) step {
	t.Helper()
	program, err := build()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, "action")
	cmd.Dir = r.path("workspace")
	for name, value := range r.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	for name, value := range inputs {
		cmd.Env = append(cmd.Env, "PULLONCE_INPUT_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"="+value)
	}
	return finishStep(t, cmd, r.path("output"), r.path("summary"), "", "")
}

// finishStep runs cmd and reads what it left for the runner. Paths below the folder inside are those that the program
// knows; for us they lie below the folder outside.
func finishStep(t *testing.T, cmd *exec.Cmd, output, summary, inside, outside string) step {
	t.Helper()
	require.NoError(t, errors.Join(os.WriteFile(output, nil, 0o644), os.WriteFile(summary, nil, 0o644)))
	log, err := cmd.CombinedOutput()
	t.Log(string(log))
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		require.NoError(t, err)
	}
	s := step{code: cmd.ProcessState.ExitCode(), log: string(log), outputs: map[string]string{}}
	for line := range strings.Lines(readFile(t, output)) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		require.True(t, ok, "output %q", line)
		s.outputs[name] = value
	}
	s.summary = readFile(t, summary)
	if path := s.outputs["report"]; path != "" {
		require.NoError(t, json.Unmarshal([]byte(readFile(t, strings.Replace(path, inside, outside, 1))), &s.report))
	}
	return s
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}
