//go:build linux

package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cachetest"
	"github.com/pullonce/pullonce/internal/report"
)

// containerAction is the container variant on a machine with a runner, in the image that the runner has built of it.
type containerAction struct {
	*runner
	daemon *daemon
	// socket is what the runner mounts as the Docker socket; "" mounts nothing, as other runners do.
	socket string
}

// newContainerAction builds the image as the runner does, which is ActionManager.cs's BuildActionContainerAsync.
func newContainerAction(t *testing.T, d *daemon) *containerAction {
	t.Helper()
	c := &containerAction{runner: newRunner(t, nil), daemon: d, socket: d.socket}
	action := filepath.Join(needRelease(t), "container")
	metadata := readContainerAction(t)
	dockerfile := filepath.Join(action, metadata.Runs.Image)
	if d.containerdStore {
		d.buildKit(t, filepath.Dir(dockerfile), "pullonce:e2e")
	} else {
		d.docker(t, "build", "-t", "pullonce:e2e", "-f", action+"/"+metadata.Runs.Image, filepath.Dir(dockerfile))
	}
	return c
}

// containerMetadata is what the runner reads of container/action.yml.
type containerMetadata struct {
	Inputs map[string]struct{ Default string }
	Runs   struct {
		Using, Image string
		Args         []string
	}
}

func readContainerAction(t *testing.T) (m containerMetadata) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, filepath.Join(needRelease(t), "container", "action.yml"))), &m))
	require.Equal(t, "docker", m.Runs.Using)
	return m
}

// buildKit builds the folder's Dockerfile with BuildKit, over the API: the command needs a plugin for it.
func (d *daemon) buildKit(t *testing.T, dir, tag string) {
	t.Helper()
	var sent bytes.Buffer
	w := tar.NewWriter(&sent)
	require.NoError(t, w.AddFS(os.DirFS(dir)))
	require.NoError(t, w.Close())
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", d.socket)
	}}}
	defer client.CloseIdleConnections()
	resp, err := client.Post("http://docker/build?version=2&t="+tag, "application/x-tar", &sent)
	require.NoError(t, err)
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", said)
	require.NotContains(t, string(said), `"error"`)
	require.Contains(t, string(said), "moby.buildkit.trace")
}

// The folders of a job that the runner mounts, and where. This is ContainerActionHandler.cs, as is the rest of what the
// container is given.
var mounts = [][2]string{
	{"_temp", "/github/runner_temp"},
	{"_temp/_github_home", "/github/home"},
	{"_temp/_github_workflow", "/github/workflow"},
	{"_temp/_runner_file_commands", "/github/file_commands"},
	{"app/app", "/github/workspace"},
}

// run starts the container as the runner does, with these inputs.
func (c *containerAction) run(t *testing.T, inputs map[string]string) step {
	t.Helper()
	metadata := readContainerAction(t)
	argv := []string{"run", "--name", "pulloncee2e_0a1b2c", "--label", "0a1b2c", "--workdir", "/github/workspace", "--rm"}
	env := c.environment(t, metadata, inputs)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		argv = append(argv, "-e", name)
	}
	// Without a network of a job the runner leaves it to Docker, whose bridge this daemon has not.
	argv = append(argv, "-e", "GITHUB_ACTIONS=true", "-e", "CI=true", "--network", "host")
	if c.socket != "" {
		argv = append(argv, "-v", c.socket+":/var/run/docker.sock")
	}
	for _, m := range mounts {
		argv = append(argv, "-v", c.folder(t, m[0])+":"+m[1])
	}
	cmd := exec.CommandContext(t.Context(), "docker", append(append(argv, "pullonce:e2e"), metadata.Runs.Args...)...)
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"), "DOCKER_HOST="+c.daemon.host())
	commands := c.path("_temp/_runner_file_commands")
	return finishStep(t, cmd, filepath.Join(commands, "set_output_1"), filepath.Join(commands, "step_summary_1"), "/github/runner_temp", c.path("_temp"))
}

// environment is that of the container: the contexts, the inputs with their defaults, and what every action is given of
// the cache service, but not ACTIONS_CACHE_SERVICE_V2.
func (c *containerAction) environment(t *testing.T, metadata containerMetadata, inputs map[string]string) map[string]string {
	t.Helper()
	env := map[string]string{}
	for line := range strings.Lines(readFile(t, "../testdata/runner/machine.env")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if strings.HasPrefix(name, "GITHUB_") || strings.HasPrefix(name, "RUNNER_") {
			env[name] = strings.Replace(value, "WORK", c.dir, 1)
		}
	}
	env["HOME"] = c.path("_temp/_github_home")
	env["GITHUB_OUTPUT"], env["GITHUB_STEP_SUMMARY"] = c.path("_temp/_runner_file_commands/set_output_1"), c.path("_temp/_runner_file_commands/step_summary_1")
	maps.Copy(env, map[string]string{"GITHUB_ACTION": "__pullonce_pullonce", "GITHUB_ACTION_REPOSITORY": "pullonce/pullonce", "GITHUB_ACTION_REF": "v1"})
	for name, input := range metadata.Inputs {
		env["INPUT_"+strings.ReplaceAll(strings.ToUpper(name), " ", "_")] = input.Default
	}
	for name, value := range inputs {
		env["INPUT_"+strings.ToUpper(name)] = value
	}
	for name, value := range c.env {
		if strings.HasPrefix(name, "ACTIONS_") {
			env[name] = value
		}
	}
	for name, value := range env {
		env[name] = c.inside(value)
	}
	return env
}

// inside is a path of the machine as the container sees it; the mount added last goes first.
func (c *containerAction) inside(path string) string {
	for _, m := range slices.Backward(mounts) {
		if path == c.path(m[0]) || strings.HasPrefix(path, c.path(m[0])+"/") {
			return m[1] + strings.TrimPrefix(path, c.path(m[0]))
		}
	}
	return path
}

// The container variant primes and loads with the runner's own cache service, and hands its outputs over.
func TestContainerAction(t *testing.T) {
	forEachEngine(t, func(t *testing.T, d *daemon) {
		c := newContainerAction(t, d)
		r := startRegistry(t, tempDir(t))
		require.NoError(t, r.push(t.Context(), "e2e/contained:1", unlike(t, "contained")))
		cache, err := cachetest.Start(cachetest.New(cachetest.Options{}))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, cache.Close()) })
		maps.Copy(c.env, map[string]string{
			"ACTIONS_RUNTIME_URL": cache.URL, "ACTIONS_RESULTS_URL": cache.URL, "ACTIONS_RUNTIME_TOKEN": cachetest.Token, "ACTIONS_CACHE_URL": cache.URL,
		})
		reference := r.addr + "/e2e/contained:1"
		writeFile(t, c.folder(t, "app/app"), "images.txt", reference+"\n")
		writeFile(t, c.folder(t, "_temp/_github_workflow"), "event.json", "{}")

		primed := c.run(t, map[string]string{"mode": "prime", "pins": "images.txt"})
		require.Equal(t, 0, primed.code)
		require.Equal(t, []report.Source{report.Registry}, primed.sources())
		require.Equal(t, []string{"success", "false", `["` + reference + `"]`}, []string{primed.outputs["result"], primed.outputs["cache-hit"], primed.outputs["pulled"]})
		require.Contains(t, primed.summary, "### pullonce prime: success")
		require.Len(t, cache.Entries(), 1)

		loaded := c.run(t, map[string]string{"mode": "load", "pins": "images.txt", "on-miss": "fail", "keys": primed.outputs["keys"]})
		require.Equal(t, 0, loaded.code)
		require.Equal(t, []report.Source{report.Cache}, loaded.sources())
		require.Equal(t, `["`+reference+`"]`, loaded.outputs["loaded"])
		require.Equal(t, "contained", d.run(t, reference, busybox, "cat", "/etc/version"))

		for name, socket := range map[string]string{"no socket": "", "the socket is a folder": filepath.Join(c.dir, "absent.sock")} {
			c.socket = socket // where there is nothing to mount, Docker makes a folder
			lane := c.run(t, map[string]string{"mode": "load", "pins": "images.txt"})
			require.Equal(t, 0, lane.code, name)
			require.Equal(t, "degraded", lane.outputs["result"], name)
			lane.requireAnnotations(t, "::warning…nothing loaded into docker…/var/run/docker.sock")
		}
		wrong := c.run(t, map[string]string{"mode": "load", "pins": "absent.txt"})
		require.Equal(t, 2, wrong.code)
		wrong.requireAnnotations(t, "::error…absent.txt")
	})
}

// folder makes one of the job's.
func (c *containerAction) folder(t *testing.T, name string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(c.path(name), 0o755))
	return c.path(name)
}

// The image holds the binary and nothing else: no shell, no CA roots, no /tmp.
func TestContainerImageHoldsTheBinaryAlone(t *testing.T) {
	forEachEngine(t, func(t *testing.T, d *daemon) {
		newContainerAction(t, d)
		saved := filepath.Join(tempDir(t), "image.tar")
		d.docker(t, "save", "--output", saved, "pullonce:e2e")
		require.Equal(t, []string{"pullonce"}, filesOf(t, saved))

		var run struct {
			Entrypoint []string
			User       string
		}
		require.NoError(t, json.Unmarshal([]byte(d.docker(t, "image", "inspect", "--format", "{{json .Config}}", "pullonce:e2e")), &run))
		require.Equal(t, []string{"/pullonce"}, run.Entrypoint)
		require.Empty(t, run.User, "the runner's files belong to whoever runs it: the container writes them as root")
	})
}

// filesOf are the files in the layers of an image that Docker has saved.
func filesOf(t *testing.T, saved string) (names []string) {
	t.Helper()
	id := mustOutput(t, nil, "tar", "-xOf", saved, "manifest.json")
	var manifest []struct{ Layers []string }
	require.NoError(t, json.Unmarshal([]byte(id), &manifest))
	require.Len(t, manifest, 1)
	for _, layer := range manifest[0].Layers {
		list := mustOutput(t, nil, "sh", "-c", `tar -xOf "$0" "$1" | gzip -dcf | tar -t`, saved, layer)
		names = append(names, strings.Fields(list)...)
	}
	return names
}
