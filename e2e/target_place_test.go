//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	programs "github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/containerd"
	"github.com/pullonce/pullonce/internal/target/docker"
	"github.com/pullonce/pullonce/internal/target/podman"
)

// place is somewhere that images are loaded into, as its users see it.
type place interface {
	// target is what pullonce loads through, with nothing remembered.
	target(t *testing.T) target.Target
	// create makes a container of exactly this reference, with pulls off, and removes it.
	create(t *testing.T, ref string) error
	// names are the names of all images there.
	names(t *testing.T) []string
	// clear removes all images.
	clear(t *testing.T)
}

// places are all of them, by the name that testdata/targets.txt has for them.
func places() map[string]func(t *testing.T) place {
	all := map[string]func(t *testing.T) place{
		"podman": func(t *testing.T) place { return startPodman(t) },
	}
	for _, e := range engines() {
		all["docker-"+e.name] = func(t *testing.T) place { return dockerPlace{d: e.start(t)} }
		all["containerd-"+e.version()] = func(t *testing.T) place { return e.startContainerd(t) }
		all["kind-"+e.version()] = func(t *testing.T) place { return startKind(t, e.start(t), "native", "overlayfs") }
	}
	return all
}

// forEachPlace runs a test on a new, empty place of each kind but Docker, which its own package tries.
func forEachPlace(t *testing.T, test func(t *testing.T, p place)) {
	t.Helper()
	gate(t)
	all := places()
	for _, name := range sortedKeys(all) {
		if !strings.HasPrefix(name, "docker-") {
			t.Run(name, func(t *testing.T) { test(t, all[name](t)) })
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// version is what the engine's containerd is called.
func (e engine) version() string {
	if e.bin == "" {
		return "debian"
	}
	return "current"
}

// output runs a program of the bench and gives what it wrote.
func output(t *testing.T, env []string, argv ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), argv[0], argv[1:]...) // in clean-up as well
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// mustOutput is output where nothing may go wrong.
func mustOutput(t *testing.T, env []string, argv ...string) string {
	t.Helper()
	out, err := output(t, env, argv...)
	require.NoError(t, err)
	return out
}

// dockerPlace is a Docker daemon, and how images get into it.
type dockerPlace struct {
	d   *daemon
	way docker.Way
}

func (p dockerPlace) target(t *testing.T) target.Target {
	made, err := docker.New(docker.Options{Host: p.d.host(), Way: p.way})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, made.Close()) })
	return made
}

func (p dockerPlace) create(t *testing.T, ref string) error {
	id, err := p.d.tryDocker(t, "create", "--pull", "never", ref)
	if err == nil {
		p.d.docker(t, "rm", id)
	}
	return err
}

func (p dockerPlace) names(t *testing.T) []string { return p.d.names(t) }
func (p dockerPlace) clear(t *testing.T)          { p.d.empty(t) }

// containerdPlace is a containerd of the host with the kubelet's plugin in it.
type containerdPlace struct {
	engine
	dir, socket string
	ctr         string
}

// criConfig is a configuration of containerd for the kubelet: without CNI, where the user may not lower the OOM score
// of a process, and with a sandbox image that is loaded as any other.
const criConfig = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "e2e.test/pause:1"
restrict_oom_score_adj = true
`

func (e engine) startContainerd(t *testing.T) *containerdPlace {
	t.Helper()
	return e.startContainerdOn(t, 0)
}

// startContainerdOn is startContainerd with a disk that has room for size bytes; 0 is no bound.
func (e engine) startContainerdOn(t *testing.T, size int64) *containerdPlace {
	t.Helper()
	dir := tempDir(t)
	if size > 0 {
		mountTmpfs(t, filepath.Join(dir, "root"), size)
	}
	p := &containerdPlace{engine: e, dir: dir, socket: filepath.Join(dir, "c.sock"), ctr: e.path(t, "ctr")}
	c := start(t, dir, "containerd", e.env(), e.path(t, "containerd"), "--address", p.socket, "--root", filepath.Join(dir, "root"),
		"--state", filepath.Join(dir, "state"), "--config", writeFile(t, dir, "containerd.toml", criConfig))
	c.eventually(t, "containerd answers", func() bool {
		_, err := output(t, nil, p.ctr, "--address", p.socket, "version")
		return err == nil
	})
	return p
}

// fromBin runs programs that a folder has from there.
type fromBin struct{ dir string }

// Run implements command.Runner.
func (r fromBin) Run(ctx context.Context, c programs.Command) (programs.Output, error) {
	if path := filepath.Join(r.dir, c.Argv[0]); r.dir != "" && exists(path) {
		c.Argv = append([]string{path}, c.Argv[1:]...)
	}
	return programs.Host{}.Run(ctx, c)
}

func (p *containerdPlace) target(*testing.T) target.Target {
	return containerd.New(containerd.Options{Address: p.socket, Runner: fromBin{p.bin}})
}

func (p *containerdPlace) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return output(t, nil, append([]string{p.ctr, "--address", p.socket, "--namespace", "k8s.io"}, args...)...)
}

func (p *containerdPlace) create(t *testing.T, ref string) error {
	if _, err := p.run(t, "containers", "create", ref, "probe"); err != nil {
		return err
	}
	_, err := p.run(t, "containers", "rm", "probe")
	require.NoError(t, err)
	return nil
}

func (p *containerdPlace) names(t *testing.T) []string {
	out, err := p.run(t, "images", "ls", "--quiet")
	require.NoError(t, err)
	return strings.Fields(out)
}

func (p *containerdPlace) clear(t *testing.T) {
	if names := p.names(t); len(names) > 0 {
		_, err := p.run(t, append([]string{"images", "rm", "--sync"}, names...)...)
		require.NoError(t, err)
	}
}

// podmanPlace is podman with storage of its own, by its program or by a socket.
type podmanPlace struct {
	env    []string
	config string
	socket string // "" is the program
}

func startPodman(t *testing.T) *podmanPlace {
	t.Helper()
	dir := tempDir(t)
	config := writeFile(t, dir, "storage.conf", fmt.Sprintf("[storage]\ndriver = \"overlay\"\ngraphroot = %q\nrunroot = %q\n",
		filepath.Join(dir, "root"), filepath.Join(dir, "run")))
	p := &podmanPlace{config: config, env: []string{"CONTAINERS_STORAGE_CONF=" + config, "HOME=" + dir}}
	_, err := output(t, p.env, "podman", "info")
	require.NoError(t, err, "the end-to-end suite needs podman; .ci/run installs it")
	return p
}

// listen starts podman's service.
func (p *podmanPlace) listen(t *testing.T) {
	t.Helper()
	dir := tempDir(t)
	p.socket = filepath.Join(dir, "podman.sock")
	service := start(t, dir, "podman", append([]string{"PATH=" + os.Getenv("PATH")}, p.env...), "podman", "system", "service", "--time", "0", "unix://"+p.socket)
	service.eventually(t, "podman listens", func() bool { return exists(p.socket) })
}

// withEnv runs programs with some more environment.
type withEnv struct{ env []string }

// Run implements command.Runner.
func (r withEnv) Run(ctx context.Context, c programs.Command) (programs.Output, error) {
	c.Env = append(c.Env, r.env...)
	return programs.Host{}.Run(ctx, c)
}

func (p *podmanPlace) target(*testing.T) target.Target {
	return podman.New(podman.Options{Runner: withEnv{p.env}, Getenv: func(name string) string {
		if name == "CONTAINER_HOST" && p.socket != "" {
			return "unix://" + p.socket
		}
		return ""
	}})
}

func (p *podmanPlace) create(t *testing.T, ref string) error {
	id, err := output(t, p.env, "podman", "create", "--pull", "never", ref)
	if err == nil {
		mustOutput(t, p.env, "podman", "rm", strings.TrimSpace(id))
	}
	return err
}

func (p *podmanPlace) names(t *testing.T) []string {
	return strings.Fields(mustOutput(t, p.env, "podman", "images", "--all", "--format", "{{.Repository}}:{{.Tag}}"))
}

func (p *podmanPlace) clear(t *testing.T) { mustOutput(t, p.env, "podman", "rmi", "--all", "--force") }
