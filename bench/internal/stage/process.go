//go:build linux

// Package stage owns what a benchmark plays on: the registry, the cache service behind its line, the container engines and
// the kind node, each a process on loopback with its files in one folder. It knows nothing of who is measured on it.
package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// patience bounds every wait for a daemon to come up or to go.
const patience = 60 * time.Second

// process is a program that runs until it is stopped. What it writes is in <dir>/<name>.out and .err.
type process struct {
	name string
	base string
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended
}

// launch starts argv in a process group of its own, so that a terminal's interrupt reaches us alone: daemons are stopped in
// order.
func launch(dir, name string, env []string, argv ...string) (*process, error) {
	p := &process{name: name, base: filepath.Join(dir, name), done: make(chan struct{})}
	stdout, err := os.Create(p.base + ".out")
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	stderr, err := os.Create(p.base + ".err")
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, stdout, stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // how it ended says nothing: it is told to
	}()
	return p, nil
}

// pid is its process id.
func (p *process) pid() int { return p.cmd.Process.Pid }

// await waits until cond holds.
func (p *process) await(ctx context.Context, what string, cond func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !cond() {
		select {
		case <-p.done:
			return fmt.Errorf("waiting until %s: %s ended:\n%s", what, p.name, lastLines(p.base+".err", 20))
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w\n%s", what, ctx.Err(), lastLines(p.base+".err", 20))
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// stop ends the process and waits for it: politely, then by force, which is an error. One that has ended is fine.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		<-p.done
		return nil
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
		_ = p.cmd.Process.Kill() // it is not there any more, or will not be
		<-p.done
		return fmt.Errorf("stopping %s: it did not end within %s", p.name, patience)
	}
}

// lastLines are the last n lines of a file.
func lastLines(name string, n int) string {
	data, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// output runs a program that is not measured, and gives what it wrote to its standard output, without the white space
// around it.
func output(ctx context.Context, env []string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = env
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("running %s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}
