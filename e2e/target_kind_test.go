//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/docker"
	"github.com/pullonce/pullonce/internal/target/kind"
)

// kindPlace is a cluster of nodes as kind makes them, as far as images are concerned: containers with kind's labels
// that run a containerd each.
type kindPlace struct {
	d     *daemon
	nodes []string // the names of their containers: the control plane, then workers
}

// startKind makes a node for each snapshotter.
func startKind(t *testing.T, d *daemon, snapshotters ...string) *kindPlace {
	t.Helper()
	p := &kindPlace{d: d}
	d.buildNode(t)
	for i, snapshotter := range snapshotters {
		name, role := "kind-control-plane", "control-plane"
		if i > 0 {
			name, role = fmt.Sprintf("kind-worker%d", i), "worker"
		}
		p.nodes = append(p.nodes, name)
		d.docker(t, "run", "--detach", "--name", name, "--label", "io.x-k8s.kind.cluster=kind", "--label", "io.x-k8s.kind.role="+role,
			"--network", "none", "--cap-add", "SYS_ADMIN", "--cap-add", "NET_ADMIN", "--cap-add", "SYS_PTRACE",
			"--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined",
			"--volume", "/var/lib/containerd", "--volume", "/sys/fs/cgroup:/sys/fs/cgroup", "--tmpfs", "/run", "--tmpfs", "/tmp",
			"--env", "SNAPSHOTTER="+snapshotter, "kind-node:1")
		t.Cleanup(func() { p.docker(t, "rm", "--force", "--volumes", name) })
	}
	for _, name := range p.nodes {
		d.dockerd.eventually(t, name+" answers", func() bool {
			_, err := d.tryDocker(t, "exec", name, "ctr", "version")
			return err == nil
		})
	}
	return p
}

// client is the environment of the docker command.
func (d *daemon) client() []string { return []string{"DOCKER_HOST=" + d.host(), "HOME=" + d.dir} }

// docker runs the docker command, in clean-up as well.
func (p *kindPlace) docker(t *testing.T, args ...string) string {
	t.Helper()
	return mustOutput(t, p.d.client(), append([]string{"docker"}, args...)...)
}

// nodeStart is the program of a node: its containerd, configured for the snapshotter that it was given.
const nodeStart = `#!/bin/busybox sh
/bin/busybox cat >/etc/containerd/config.toml <<END
` + criConfig + `[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "$SNAPSHOTTER"
END
exec containerd
`

// buildNode makes the image of a node from the programs of the bench.
func (d *daemon) buildNode(t *testing.T) {
	t.Helper()
	root := tempDir(t)
	needed := []string{d.path(t, "containerd"), d.path(t, "ctr"), d.path(t, "containerd-shim-runc-v2"), engine{}.path(t, "runc"), engine{}.path(t, "crictl")}
	for _, dir := range []string{"etc/containerd", "run", "tmp", "root", "var/log", "var/lib/containerd", "sys/fs/cgroup"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	install(t, busybox, filepath.Join(root, busybox))
	install(t, busybox, filepath.Join(root, "bin", "sh")) // a kind node has a shell
	for _, program := range needed {
		install(t, program, filepath.Join(root, "usr/local/bin", filepath.Base(program)))
		libraries, _ := output(t, nil, "ldd", program) // a static program is an error
		for _, word := range strings.Fields(libraries) {
			if strings.HasPrefix(word, "/") {
				install(t, strings.TrimSuffix(word, ":"), filepath.Join(root, strings.TrimSuffix(word, ":")))
			}
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "start"), []byte(nodeStart), 0o755))
	mustOutput(t, d.client(), "sh", "-c",
		`tar -C "$1" -c . | docker import --change 'ENV PATH=/usr/local/bin:/bin' --change 'CMD ["/start"]' - kind-node:1`, "sh", root)
}

// install copies a program or a library.
func install(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
	require.NoError(t, os.WriteFile(to, data, 0o755))
}

func (p *kindPlace) target(t *testing.T) target.Target { return p.kind(t, kind.Options{}) }

func (p *kindPlace) kind(t *testing.T, opts kind.Options) *kind.Kind {
	t.Helper()
	var err error
	opts.Engine, err = docker.New(docker.Options{Host: p.d.host()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opts.Engine.Close()) })
	return kind.New(opts)
}

// in runs ctr in a node.
func (p *kindPlace) in(t *testing.T, node string, args ...string) (string, error) {
	t.Helper()
	return p.d.tryDocker(t, append([]string{"exec", node, "ctr", "--namespace", "k8s.io"}, args...)...)
}

// create makes a container in every node.
func (p *kindPlace) create(t *testing.T, ref string) error {
	for i, node := range p.nodes {
		snapshotter := []string{"native", "overlayfs"}[i]
		if _, err := p.in(t, node, "containers", "create", "--snapshotter", snapshotter, ref, "probe"); err != nil {
			return err
		}
		_, err := p.in(t, node, "containers", "rm", "probe")
		require.NoError(t, err)
	}
	return nil
}

func (p *kindPlace) names(t *testing.T) []string {
	var names []string
	for _, node := range p.nodes {
		names = append(names, p.namesIn(t, node)...)
	}
	return names
}

func (p *kindPlace) namesIn(t *testing.T, node string) []string {
	t.Helper()
	out, err := p.in(t, node, "images", "ls", "--quiet")
	require.NoError(t, err)
	return strings.Fields(out)
}

func (p *kindPlace) clear(t *testing.T) {
	for _, node := range p.nodes {
		if names := p.namesIn(t, node); len(names) > 0 {
			_, err := p.in(t, node, append([]string{"images", "rm", "--sync"}, names...)...)
			require.NoError(t, err)
		}
	}
}
