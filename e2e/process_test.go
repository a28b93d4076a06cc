//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience bounds every wait for a daemon to come up or to go.
const patience = 60 * time.Second

// process is a program that runs until it is stopped. What it writes is in <dir>/<name>.out and .err; its process id
// is in <dir>/<name>.pid, so that whoever started the suite can end what a killed suite leaves behind.
type process struct {
	cmd  *exec.Cmd
	base string
	done chan struct{} // closed once it has ended
}

// launch starts argv with the given environment.
func launch(dir, name string, env []string, argv ...string) (*process, error) {
	p := &process{base: filepath.Join(dir, name), done: make(chan struct{})}
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
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	}()
	return p, os.WriteFile(p.base+".pid", []byte(strconv.Itoa(p.cmd.Process.Pid)+"\n"), 0o644)
}

// start is launch for a test, which stops the process when it ends and shows its last words if it failed.
func start(t *testing.T, dir, name string, env []string, argv ...string) *process {
	t.Helper()
	p, err := launch(dir, name, env, argv...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.stop())
		if t.Failed() {
			t.Logf("%s:\n%s", name, tail(p.base+".err", 20))
		}
	})
	return p
}

// stop ends the process and waits for it: politely, then by force, which is an error. One that has ended is fine.
func (p *process) stop() error {
	defer os.Remove(p.base + ".pid")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		<-p.done
		return nil
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
		p.kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM", filepath.Base(p.base), patience)
	}
}

// kill ends the process with no word of warning.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// running says whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// eventually waits for cond, and fails early if the process that is to bring it about has ended.
func (p *process) eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	var met bool
	require.Eventually(t, func() bool {
		met = cond()
		return met || !p.running()
	}, patience, 20*time.Millisecond, what)
	require.True(t, met, "%s: the process ended before:\n%s", what, tail(p.base+".err", 20))
}

// tail is the last n lines of a file.
func tail(name string, n int) string {
	data, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// unmountBelow takes down whatever is mounted below dir, the newest mount first.
func unmountBelow(t *testing.T, dir string) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	lines := strings.Split(string(data), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		fields := strings.Fields(lines[i])
		if len(fields) > 1 && strings.HasPrefix(fields[1]+"/", dir+"/") {
			require.NoError(t, syscall.Unmount(fields[1], syscall.MNT_DETACH), fields[1])
		}
	}
}

// mountTmpfs makes dir a file system of its own with room for size bytes.
func mountTmpfs(t *testing.T, dir string, size int64) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, syscall.Mount("pullonce-e2e", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)))
}
