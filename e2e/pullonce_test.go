//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/report"
)

// program is pullonce with the surroundings of one test.
type program struct {
	path string
	// home is the user's folder: empty but for what the test puts there. Temporary files go there as well.
	home string
	// docker is DOCKER_HOST; "" leaves it unset.
	docker string
	// user runs the program as another user; 0 is root.
	user uint32
}

// pullonce is the built program with an empty home, in front of the daemon that d is; nil is none.
func pullonce(t *testing.T, d *daemon) program {
	t.Helper()
	path, err := build()
	require.NoError(t, err)
	p := program{path: path, home: tempDir(t), docker: "unix:///nonexistent/docker.sock"}
	require.NoError(t, os.Chmod(p.home, 0o777)) // whoever the test runs it as
	if d != nil {
		p.docker = d.host()
	}
	return p
}

// command is the program's process, not yet started.
func (p program) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.path, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.home, "TMPDIR=" + p.home}
	if p.docker != "" {
		cmd.Env = append(cmd.Env, "DOCKER_HOST="+p.docker)
	}
	if p.user != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.user, Gid: p.user}}
	}
	return cmd
}

// outcome is what a run of the program came to.
type outcome struct {
	code           int
	stdout, stderr string
	report         report.Report
	elapsed        time.Duration
}

// run runs a mode with --json and reads its report.
func (p program) run(t *testing.T, args ...string) outcome {
	t.Helper()
	return finish(t, p.command(t, append(args, "--json")...), nil)
}

// finish runs cmd, calling during, if there is one, once it has started.
func finish(t *testing.T, cmd *exec.Cmd, during func()) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	require.NoError(t, cmd.Start())
	if during != nil {
		during()
	}
	err := cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		require.NoError(t, err)
	}
	o := outcome{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String(), elapsed: time.Since(began)}
	t.Logf("%s: exit %d after %s\n%s", strings.Join(cmd.Args[1:], " "), o.code, o.elapsed.Round(time.Millisecond), o.stderr)
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &o.report), "the report: %s", o.stdout)
	return o
}

// sources are where the images came from, in the order of the pin list.
func (o outcome) sources() []report.Source {
	var sources []report.Source
	for _, row := range o.report.Images {
		sources = append(sources, row.Source)
	}
	return sources
}

// problems are those of one severity.
func (o outcome) problems(s report.Severity) []report.Problem {
	var found []report.Problem
	for _, p := range o.report.Problems {
		if p.Severity == s {
			found = append(found, p)
		}
	}
	return found
}

// requireOne holds the run to exactly one problem worse than a notice, which has the severity and names image and
// cause, in the report and in the one line that a person reads.
func (o outcome) requireOne(t *testing.T, s report.Severity, image, cause string) {
	t.Helper()
	require.Len(t, append(o.problems(report.Warning), o.problems(report.Error)...), 1)
	require.Len(t, o.problems(s), 1)
	p := o.problems(s)[0]
	require.Contains(t, p.Image, image)
	require.Contains(t, p.Message, image)
	require.Contains(t, p.Message, cause)
	require.NotContains(t, p.Message, "\n")
	require.Equal(t, 1, strings.Count("\n"+o.stderr, "\n"+string(s)+": "), "one line of the log says it: %s", o.stderr)
}

// pins writes a pin list and is the arguments that select it and a store.
func pins(t *testing.T, store string, references ...string) []string {
	t.Helper()
	list := writeFile(t, tempDir(t), "pins.txt", strings.Join(references, "\n")+"\n")
	return []string{"--pins", list, "--store", "dir:" + store}
}

// with is args with some more, on an array of its own.
func with(args []string, more ...string) []string {
	return append(append([]string(nil), args...), more...)
}

// newStore is the path of a store that is not there yet.
func newStore(t *testing.T) string {
	t.Helper()
	return filepath.Join(tempDir(t), "store")
}
