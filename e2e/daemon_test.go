//go:build linux

package e2e

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// engine is a Docker Engine that can be started.
type engine struct {
	name string
	// bin holds its programs; "" means the ones on PATH.
	bin string
	// flags are what its daemon needs beyond those that all do.
	flags []string
	// containerdStore says that images are kept in containerd: their ids are manifest or root digests.
	containerdStore bool
}

// engines are those to test: Debian's with the classic store and, if there is one, a current one with the containerd
// store.
func engines() []engine {
	all := []engine{{name: "classic"}}
	if bin := os.Getenv(envEngine); bin != "" {
		all = append(all, engine{
			name: "containerd", bin: bin, containerdStore: true,
			// Debian's runc is older than the time namespaces that the engine asks for.
			flags: []string{"--feature", "containerd-snapshotter=true", "--feature", "time-namespaces=false"},
		})
	}
	return all
}

// forEachEngine runs a test on a new, empty daemon of each engine.
func forEachEngine(t *testing.T, test func(t *testing.T, d *daemon)) {
	t.Helper()
	gate(t)
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) { test(t, e.start(t)) })
	}
}

// daemon is a running engine: containerd and dockerd, with roots and socket of their own.
type daemon struct {
	engine
	dockerd *process
	argv    []string
	// dir holds everything of the daemon; roots, below it, what it is given to keep.
	dir, roots, socket string
}

// start runs a new, empty daemon until the test ends.
func (e engine) start(t *testing.T) *daemon {
	t.Helper()
	return e.startOn(t, 0)
}

// startOn is start with a disk that has room for size bytes; 0 is no bound.
func (e engine) startOn(t *testing.T, size int64) *daemon {
	t.Helper()
	dir := tempDir(t)
	d := &daemon{engine: e, dir: dir, roots: filepath.Join(dir, "roots"), socket: filepath.Join(dir, "docker.sock")}
	if size > 0 {
		mountTmpfs(t, d.roots, size)
	}
	containerdSocket := filepath.Join(dir, "c.sock")
	c := start(t, dir, "containerd", e.env(), e.path(t, "containerd"), "--address", containerdSocket,
		"--root", filepath.Join(d.roots, "containerd"), "--state", filepath.Join(dir, "cstate"),
		"--config", writeFile(t, dir, "containerd.toml", "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n"))
	c.eventually(t, "containerd listens", func() bool { return exists(containerdSocket) })
	d.argv = append([]string{e.path(t, "dockerd"),
		"--config-file", writeFile(t, dir, "daemon.json", "{}\n"), "--containerd", containerdSocket, "--host", d.host(),
		"--data-root", filepath.Join(d.roots, "docker"), "--exec-root", filepath.Join(dir, "exec"), "--pidfile", filepath.Join(dir, "docker.pid"),
		"--iptables=false", "--ip6tables=false", "--bridge=none"}, e.flags...)
	d.launch(t)
	return d
}

// launch starts the dockerd.
func (d *daemon) launch(t *testing.T) {
	t.Helper()
	d.dockerd = start(t, d.dir, "dockerd", d.env(), d.argv...)
	d.dockerd.eventually(t, "dockerd answers", d.answers)
}

// restart ends the dockerd, and starts it again with what it has kept.
func (d *daemon) restart(t *testing.T) {
	t.Helper()
	require.NoError(t, d.dockerd.stop())
	d.launch(t)
}

// writeFile makes a file of a test and returns its path.
func writeFile(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

func (e engine) path(t *testing.T, program string) string {
	t.Helper()
	if e.bin != "" {
		return filepath.Join(e.bin, program)
	}
	found, err := exec.LookPath(program)
	require.NoError(t, err, "the end-to-end suite needs %s; .ci/run installs it", program)
	return found
}

func (e engine) env() []string {
	path := os.Getenv("PATH")
	if e.bin != "" {
		path = e.bin + string(os.PathListSeparator) + path
	}
	return []string{"PATH=" + path}
}

// host is the daemon's address, as DOCKER_HOST takes it.
func (d *daemon) host() string { return "unix://" + d.socket }

// answers says whether the daemon does, to the ping of its API.
func (d *daemon) answers() bool {
	conn, err := net.DialTimeout("unix", d.socket, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /_ping HTTP/1.0\r\n\r\n")
	reply, _ := io.ReadAll(io.LimitReader(conn, 1<<10))
	return err == nil && bytes.HasPrefix(reply, []byte("HTTP/1.0 200 "))
}

// tryDocker runs the docker command against the daemon and returns what it wrote to its standard output.
func (d *daemon) tryDocker(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "docker", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.dir, "DOCKER_HOST=" + d.host()}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		t.Logf("docker %s: %v: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), err
}

// docker is tryDocker where nothing may go wrong.
func (d *daemon) docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := d.tryDocker(t, args...)
	require.NoError(t, err)
	return out
}

// id is what the daemon calls the image that ref resolves to.
func (d *daemon) id(t *testing.T, ref string) string {
	t.Helper()
	return d.docker(t, "image", "inspect", "--format", "{{.Id}}", ref)
}

// names are the "repository:tag" of all images.
func (d *daemon) names(t *testing.T) []string {
	t.Helper()
	return strings.Fields(d.docker(t, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}"))
}

// run creates a container of exactly ref, with no network and no pull, and runs a program of the image in it.
func (d *daemon) run(t *testing.T, ref string, argv ...string) string {
	t.Helper()
	return d.docker(t, append([]string{"run", "--rm", "--network", "none", "--pull", "never", ref}, argv...)...)
}

// empty removes every image.
func (d *daemon) empty(t *testing.T) {
	t.Helper()
	for _, id := range strings.Fields(d.docker(t, "image", "ls", "--all", "--quiet", "--no-trunc")) {
		_, _ = d.tryDocker(t, "image", "rm", "--force", id) // a parent may have gone with its child
	}
	require.Empty(t, d.docker(t, "image", "ls", "--all", "--quiet"))
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
