//go:build linux

package stage

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// NodeImage is what the node's container runs: the engine that has it keeps it.
	NodeImage = "pullonce-bench-node:1"
	// NodeName is the node's container, named as kind names the only node of its default cluster.
	NodeName = "kind-control-plane"
	// busybox is in the node's image, and in every image that is measured.
	busybox = "/bin/busybox"
)

// Node is a kind node as far as images are concerned: a container with kind's labels that runs a containerd.
type Node struct {
	engine *Engine
	init   int // its containerd's process id
}

// nodeStart is the program of the node. An engine mounts its cgroups.
const nodeStart = `#!/bin/busybox sh
echo 'version = 2' >/etc/containerd/config.toml
exec containerd
`

// StartNode makes a node in an engine.
func StartNode(ctx context.Context, e *Engine) (*Node, error) {
	n := &Node{engine: e}
	if err := n.build(ctx); err != nil {
		return nil, fmt.Errorf("making the image of the kind node: %w", err)
	}
	_, err := e.Docker(ctx, "run", "--detach", "--name", NodeName, "--privileged",
		"--label", "io.x-k8s.kind.cluster=kind", "--label", "io.x-k8s.kind.role=control-plane", "--network", "none",
		"--volume", "/var/lib/containerd", "--volume", "/sys/fs/cgroup:/sys/fs/cgroup", "--tmpfs", "/run", "--tmpfs", "/tmp", NodeImage)
	if err != nil {
		return nil, err
	}
	err = e.dockerd.await(ctx, "the kind node answers", func() bool {
		_, err := e.Docker(ctx, "exec", NodeName, "ctr", "version")
		return err == nil
	})
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, n.find(ctx)
}

// find asks for the process of the node.
func (n *Node) find(ctx context.Context) error {
	pid, err := n.engine.Docker(ctx, "inspect", "--format", "{{.State.Pid}}", NodeName)
	if err != nil {
		return err
	}
	n.init, err = strconv.Atoi(pid)
	return err
}

// build makes the node's image from the engine's own programs.
func (n *Node) build(ctx context.Context) error {
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(n.write(ctx, writer)) }()
	cmd := exec.CommandContext(ctx, "docker", "import", "--change", "ENV PATH=/usr/local/bin:/bin", "--change", `CMD ["/start"]`, "-", NodeImage)
	cmd.Env, cmd.Stdin = n.engine.Client(), reader
	out, err := cmd.CombinedOutput()
	reader.CloseWithError(err)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// write writes the node's root file system.
func (n *Node) write(ctx context.Context, w io.Writer) error {
	tw := tar.NewWriter(w)
	for _, dir := range []string{"etc/", "etc/containerd/", "run/", "tmp/", "root/", "var/", "var/lib/", "var/lib/containerd/", "sys/", "sys/fs/", "sys/fs/cgroup/"} {
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			return err
		}
	}
	files, err := n.files(ctx)
	if err != nil {
		return err
	}
	for to, from := range files {
		if err := writeFile(tw, to, from); err != nil {
			return err
		}
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: "start", Mode: 0o755, Size: int64(len(nodeStart))}
	if err := tw.WriteHeader(header); err != nil {
		return err
	}
	if _, err := io.WriteString(tw, nodeStart); err != nil {
		return err
	}
	return tw.Close()
}

// files are the node's programs and their libraries, by where they go.
func (n *Node) files(ctx context.Context) (map[string]string, error) {
	files := map[string]string{busybox: busybox, "/bin/sh": busybox}
	for _, program := range []string{"containerd", "ctr", "containerd-shim-runc-v2", "runc"} {
		path, err := exec.LookPath(n.engine.program(program))
		if program == "runc" {
			path, err = exec.LookPath(program)
		}
		if err != nil {
			return nil, err
		}
		files["/usr/local/bin/"+program] = path
		libraries, _ := output(ctx, n.engine.env(), "ldd", path) // a static program is an error
		for _, word := range strings.Fields(libraries) {
			if strings.HasPrefix(word, "/") {
				files[strings.TrimSuffix(word, ":")] = strings.TrimSuffix(word, ":")
			}
		}
	}
	return files, nil
}

func writeFile(tw *tar.Writer, to, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(filepath.Clean(to), "/"), Mode: 0o755, Size: info.Size()}
	if err := tw.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(tw, f)
	return err
}

// Ctr runs ctr in the node.
func (n *Node) Ctr(ctx context.Context, args ...string) (string, error) {
	return n.engine.Docker(ctx, append([]string{"exec", NodeName, "ctr", "--namespace", "k8s.io"}, args...)...)
}

// Empty removes every image of the node and waits until their content is gone.
func (n *Node) Empty(ctx context.Context) error {
	names, err := n.Ctr(ctx, "images", "ls", "--quiet")
	if err != nil {
		return err
	}
	if names != "" {
		if _, err := n.Ctr(ctx, append([]string{"images", "rm", "--sync"}, strings.Fields(names)...)...); err != nil {
			return err
		}
	}
	return n.engine.dockerd.await(ctx, "the node has dropped what was removed", func() bool {
		left, err := n.Ctr(ctx, "content", "ls", "--quiet")
		return err == nil && left == ""
	})
}

// Processes are the node's containerd and the shim that runs what is executed in it.
func (n *Node) Processes() []int {
	pids := []int{n.init}
	if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.init)); err == nil {
		fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		if shim, err := strconv.Atoi(fields[1]); err == nil {
			pids = append(pids, shim)
		}
	}
	return pids
}

// Close removes the node with all that is in it.
func (n *Node) Close() error {
	_, err := n.engine.Docker(context.Background(), "rm", "--force", "--volumes", NodeName)
	return err
}
