//go:build linux

package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// act runs the action as it is shipped, from a clone of this repository, in a workflow on this machine. GitHub's own
// action comes from testdata; checkout is act's, which copies the clone.
type act struct {
	clone, results string
	log            string
	code           int
	// outputs are those that the workflow's last job has read, by its words for them.
	outputs map[string]string
}

// githubScript is the step of action.yml that needs the network to be fetched.
var githubScript = regexp.MustCompile(`actions/github-script@[0-9a-f]{40}`)

// runAct runs the workflow with a pin list, in front of the daemon at host.
func runAct(t *testing.T, images []string, host string) act {
	t.Helper()
	program, err := exec.LookPath("act")
	require.NoError(t, err, "the end-to-end suite needs act; .ci/run installs it")
	dir := tempDir(t)
	a := act{clone: filepath.Join(dir, "clone"), results: filepath.Join(dir, "results"), outputs: map[string]string{}}
	require.NoError(t, os.Mkdir(a.results, 0o755))
	machine(t, "git", "clone", "--quiet", "--no-local", machine(t, "git", "rev-parse", "--show-toplevel"), a.clone)
	metadata, err := os.ReadFile(filepath.Join(a.clone, "action.yml"))
	require.NoError(t, err)

	cmd := exec.CommandContext(t.Context(), program, "push", "--workflows", filepath.Join("e2e", "testdata", "act", "workflow.yml"),
		"--platform", "ubuntu-latest=-self-hosted", "--action-offline-mode", "--no-cache-server",
		"--local-repository", githubScript.FindString(string(metadata))+"="+filepath.Join(a.clone, "testdata", "github-script"),
		"--env", "DOCKER_HOST="+host,
		"--var", "IMAGES="+strings.Join(images, "\n"), "--var", "STORE="+filepath.Join(dir, "store"), "--var", "RESULTS="+a.results)
	cmd.Dir = a.clone
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "GOPROXY=off", "ACT_DISABLE_VERSION_CHECK=1",
		"GOCACHE=" + machine(t, "go", "env", "GOCACHE"), "GOMODCACHE=" + machine(t, "go", "env", "GOMODCACHE"),
	}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Run(); err != nil {
		_, exited := errors.AsType[*exec.ExitError](err)
		require.True(t, exited, err)
	}
	a.log, a.code = log.String(), cmd.ProcessState.ExitCode()
	t.Log(a.log)
	for line := range strings.Lines(a.result(t, "outputs")) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		a.outputs[name] = value
	}
	require.Empty(t, machine(t, "git", "-C", a.clone, "status", "--porcelain"), "the run changed the checkout")
	return a
}

// result is what a job of the workflow kept.
func (a act) result(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(a.results, name))
	require.NoError(t, err)
	return string(data)
}

// machine runs a program of the machine and returns what it says.
func machine(t *testing.T, argv ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s: %s", argv, stderr.String())
	return strings.TrimSpace(string(out))
}

// startThree serves three images, and gives the pin list that has one for each lane of the workflow.
func startThree(t *testing.T) (*registry, []string) {
	t.Helper()
	r := startRegistry(t, filepath.Join(tempDir(t), "storage"))
	var list []string
	for _, lane := range []string{"one", "two", "three"} {
		require.NoError(t, r.push(t.Context(), "e2e/"+lane+":1", tiny(t, "this is "+lane)))
		list = append(list, r.addr+"/e2e/"+lane+":1 lanes="+lane)
	}
	return r, list
}

// Prime, three lanes and the gate as steps of a workflow: each lane runs its own image, and nothing is asked of the
// registry twice.
func TestWorkflow(t *testing.T) {
	forEachEngine(t, func(t *testing.T, d *daemon) {
		r, list := startThree(t)
		pushed := len(r.requests(t))
		a := runAct(t, list, d.host())
		require.Zero(t, a.code)
		for _, lane := range []string{"one", "two", "three"} {
			require.Equal(t, "this is "+lane, a.result(t, lane))
			require.Contains(t, a.outputs["pulled"], r.addr+"/e2e/"+lane+":1")
			require.Contains(t, a.outputs["keys"], "pullonce-v1-"+lane+"-linux-")
		}
		require.Equal(t, []string{"success", "success", "degraded", "", ""},
			[]string{a.outputs["prime"], a.outputs["gate"], a.outputs["tokenless"], a.outputs["failed"], a.outputs["skipped"]})
		for _, summary := range []string{"### pullonce prime: success", "### pullonce load: success", "### pullonce gate: success"} {
			require.Contains(t, a.log, summary)
		}
		requireEachOnce(t, r.requests(t)[pushed:])
	})
}

// asked is the part of an access log's line that says what was asked for.
var asked = regexp.MustCompile(`"GET (/v2/\S+)`)

// requireEachOnce holds a registry to have given each manifest and each blob once.
func requireEachOnce(t *testing.T, requests []string) {
	t.Helper()
	seen := map[string]int{}
	for _, line := range requests {
		if m := asked.FindStringSubmatch(line); m != nil {
			seen[m[1]]++
		}
	}
	require.NotEmpty(t, seen)
	for path, times := range seen {
		require.Equal(t, 1, times, path)
	}
}

// A prime that fails skips its lanes, which alone would leave the run green: the gate is red.
func TestWorkflowWithFailingPrime(t *testing.T) {
	gate(t)
	r, list := startThree(t)
	a := runAct(t, append(list, r.addr+"/e2e/absent:1"), "unix:///nonexistent/docker.sock")
	require.NotZero(t, a.code)
	require.Equal(t, []string{"failure", "failure", "lane"}, []string{a.outputs["prime"], a.outputs["gate"], a.outputs["skipped"]})
	require.Contains(t, a.outputs["failed"], "prime")
	require.Contains(t, a.log, "### pullonce prime: failure")
	require.Contains(t, a.log, "### pullonce gate: failure")
	for _, lane := range []string{"one", "two", "three"} {
		require.NoFileExists(t, filepath.Join(a.results, lane))
	}
}
