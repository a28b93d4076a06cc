package socket

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProblem(t *testing.T) {
	t.Parallel()
	d := Daemon{Name: "podman", Setting: "CONTAINER_HOST"}
	for name, test := range map[string]struct {
		given func(t *testing.T, path string)
		want  string
	}{
		"nothing there": {func(*testing.T, string) {}, "no podman daemon: PATH does not exist: start podman, or set CONTAINER_HOST to where it listens"},
		"a folder": {func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) },
			"PATH is a folder, not a socket: it was mounted before there was a socket; start podman first, remove the folder, mount again"},
		"a file": {func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, nil, 0o600)) },
			"PATH is no socket (-rw-------): set CONTAINER_HOST to where podman listens"},
		"nobody listens": {func(t *testing.T, path string) {
			listener := listen(t, path)
			listener.SetUnlinkOnClose(false)
			require.NoError(t, listener.Close())
		}, "nobody listens at PATH: the podman daemon has stopped; start it"},
		"somebody listens": {func(t *testing.T, path string) { listen(t, path) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "pullonce") // short: a socket's path has room for 107 bytes
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
			path := filepath.Join(dir, "sock")
			test.given(t, path)
			require.Equal(t, strings.ReplaceAll(test.want, "PATH", path), d.Problem(t.Context(), path, 1001))
		})
	}
}

func listen(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	require.True(t, Is(path))
	return listener
}

func TestPermissionNamesUserAndSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sock")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Chmod(path, 0o660))
	require.False(t, Is(path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	uid, gid := owner(info)
	d := Daemon{Name: "containerd", Setting: "CONTAINERD_ADDRESS"}
	require.Equal(t, fmt.Sprintf("uid 1001 may not use %s (uid %s, gid %s, mode 0660): add the user to the socket's group (gid %s), or run as root",
		path, uid, gid, gid), d.dialProblem(path, 1001, info, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EACCES)}))
	require.Equal(t, "connecting to "+path+": wrong day", d.dialProblem(path, 1001, info, errors.New("wrong\nday")))
}
