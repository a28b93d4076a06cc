//go:build linux

package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// EngineOptions say which Docker Engine to run.
type EngineOptions struct {
	// Name tells engines apart, in folders and in logs.
	Name string
	// Path is where its programs are, and those that it needs; what is in Bin comes first, if there is one.
	Path, Bin string
	// Flags are what its daemon needs beyond those that all do.
	Flags []string
	// ContainerdStore says that it keeps images in containerd.
	ContainerdStore bool
}

// Engine is a Docker Engine with its containerd, empty at the start.
type Engine struct {
	EngineOptions
	containerd, dockerd *process
	dir, data           string // data has its images
}

// StartEngine runs an engine whose images are kept below data, and everything else in dir.
func StartEngine(ctx context.Context, dir, data string, o EngineOptions) (*Engine, error) {
	e := &Engine{EngineOptions: o, dir: filepath.Join(dir, o.Name), data: filepath.Join(data, o.Name)}
	if err := errors.Join(os.MkdirAll(e.dir, 0o755), os.MkdirAll(e.data, 0o755)); err != nil {
		return nil, err
	}
	err := e.startContainerd(ctx)
	if err == nil {
		err = e.startDockerd(ctx)
	}
	if err != nil {
		_ = e.Close() // what went wrong before says more
		return nil, fmt.Errorf("starting %s: %w", o.Name, err)
	}
	return e, nil
}

func (e *Engine) startContainerd(ctx context.Context) (err error) {
	config := filepath.Join(e.dir, "containerd.toml")
	if err := os.WriteFile(config, []byte("version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n"), 0o644); err != nil {
		return err
	}
	e.containerd, err = launch(e.dir, "containerd", e.env(), e.program("containerd"), "--config", config, "--address", e.socket("containerd"),
		"--root", filepath.Join(e.data, "containerd"), "--state", filepath.Join(e.dir, "state"))
	if err != nil {
		return err
	}
	return e.containerd.await(ctx, "containerd listens", func() bool {
		_, err := os.Stat(e.socket("containerd"))
		return err == nil
	})
}

func (e *Engine) startDockerd(ctx context.Context) (err error) {
	config := filepath.Join(e.dir, "daemon.json") // not the machine's
	if err := os.WriteFile(config, []byte("{}\n"), 0o644); err != nil {
		return err
	}
	e.dockerd, err = launch(e.dir, "dockerd", e.env(), append([]string{e.program("dockerd"), "--config-file", config,
		"--containerd", e.socket("containerd"), "--host", e.Host(), "--data-root", filepath.Join(e.data, "docker"),
		"--exec-root", filepath.Join(e.dir, "exec"), "--pidfile", filepath.Join(e.dir, "docker.pid"),
		"--iptables=false", "--ip6tables=false", "--bridge=none"}, e.Flags...)...)
	if err != nil {
		return err
	}
	return e.dockerd.await(ctx, "dockerd answers", func() bool { return ping(e.socket("docker")) })
}

func (e *Engine) socket(name string) string { return filepath.Join(e.dir, name+".sock") }

// program is one of the engine's own.
func (e *Engine) program(name string) string {
	if e.Bin == "" {
		return name
	}
	return filepath.Join(e.Bin, name)
}

// env is the environment of its daemons.
func (e *Engine) env() []string {
	path := e.Path
	if e.Bin != "" {
		path = e.Bin + string(os.PathListSeparator) + path
	}
	return []string{"PATH=" + path}
}

// Host is the daemon's address, as DOCKER_HOST takes it.
func (e *Engine) Host() string { return "unix://" + e.socket("docker") }

// Client is the environment of programs that use the engine.
func (e *Engine) Client() []string {
	return []string{"PATH=" + e.Path, "HOME=" + e.dir, "DOCKER_HOST=" + e.Host()}
}

// Docker runs the docker command.
func (e *Engine) Docker(ctx context.Context, args ...string) (string, error) {
	return output(ctx, e.Client(), append([]string{"docker"}, args...)...)
}

// Processes are its daemons.
func (e *Engine) Processes() []int { return []int{e.dockerd.pid(), e.containerd.pid()} }

// ping says whether a daemon answers on a socket.
func ping(socket string) bool {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /_ping HTTP/1.0\r\n\r\n")
	reply, _ := io.ReadAll(io.LimitReader(conn, 1<<10)) // what came is judged
	return err == nil && bytes.HasPrefix(reply, []byte("HTTP/1.0 200 "))
}

// Empty removes every image but those named keep, and what containerd kept of them.
func (e *Engine) Empty(ctx context.Context, keep ...string) error {
	listed, err := e.Docker(ctx, "image", "ls", "--format", "{{.Repository}}:{{.Tag}} {{.ID}}")
	if err != nil {
		return err
	}
	for line := range strings.Lines(listed) {
		name, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		if slices.Contains(keep, name) {
			continue
		}
		if strings.HasSuffix(name, ":<none>") {
			name = id
		}
		if _, err := e.Docker(ctx, "image", "rm", "--force", name); err != nil && !strings.Contains(err.Error(), "No such image") {
			return err
		}
	}
	switch {
	case e.ContainerdStore && len(keep) == 0:
		return e.collect(ctx)
	case !e.ContainerdStore && e.hasLayers():
		return e.renew(ctx)
	default:
		return nil
	}
}

// hasLayers says whether a classic store has layers left. Docker 29 keeps those that several images of one docker save had in
// common, although they are removed, and whoever comes next would find them.
func (e *Engine) hasLayers() bool {
	left, err := filepath.Glob(filepath.Join(e.data, "docker", "image", "*", "layerdb", "sha256", "*"))
	return err != nil || len(left) > 0
}

// renew starts the daemon again, with nothing.
func (e *Engine) renew(ctx context.Context) error {
	data := filepath.Join(e.data, "docker")
	if err := errors.Join(e.dockerd.stop(), Unmount(data), os.RemoveAll(data)); err != nil {
		return err
	}
	return e.startDockerd(ctx)
}

// collect waits until containerd has dropped the content of images that were removed.
func (e *Engine) collect(ctx context.Context) error {
	var left string
	err := e.containerd.await(ctx, "containerd has dropped what was removed", func() bool {
		var err error
		left, err = output(ctx, e.env(), e.program("ctr"), "--address", e.socket("containerd"), "--namespace", "moby", "content", "ls", "--quiet")
		return err == nil && left == ""
	})
	if err != nil {
		return fmt.Errorf("%w: there is still %s", err, left)
	}
	return nil
}

// Close ends its daemons and takes down what they mounted.
func (e *Engine) Close() error {
	var errs []error
	for _, p := range []*process{e.dockerd, e.containerd} {
		if p != nil {
			errs = append(errs, p.stop())
		}
	}
	return errors.Join(errs...)
}

// Version is that of the daemon.
func (e *Engine) Version(ctx context.Context) (string, error) {
	return e.Docker(ctx, "version", "--format", "{{.Server.Version}}")
}

// Unmount takes down whatever is mounted below dir, and dir itself, the newest mount first.
func Unmount(dir string) error {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	lines := strings.Split(string(data), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		fields := strings.Fields(lines[i])
		if len(fields) > 1 && strings.HasPrefix(fields[1]+"/", dir+"/") {
			if err := syscall.Unmount(fields[1], syscall.MNT_DETACH); err != nil {
				return fmt.Errorf("unmounting %s: %w", fields[1], err)
			}
		}
	}
	return nil
}
