// Package socket owns what keeps a user from a daemon's Unix socket, in one line that says what to do. It does not know
// whose daemon it is: the words for that are given.
package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/pullonce/pullonce/internal/oneline"
)

// Daemon is the words for whom a socket belongs to.
type Daemon struct {
	// Name is the daemon's, as in "Docker".
	Name string
	// Setting is what names another socket, as in "DOCKER_HOST".
	Setting string
}

// Is says whether path is a socket.
func Is(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == fs.ModeSocket
}

// Problem finds what keeps the user from the socket at path, or "" where it can be connected to. A client whose
// connection failed has lost the cause as a rule, so another is tried.
func (d Daemon) Problem(ctx context.Context, path string, uid int) string {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("no %s daemon: %s does not exist: start %s, or set %s to where it listens", d.Name, path, d.Name, d.Setting)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("uid %d may not look into the folder of %s: run as a user that may, or set %s to a socket within reach", uid, path, d.Setting)
	case err != nil:
		return oneline.Of(err.Error())
	case info.IsDir():
		return fmt.Sprintf("%s is a folder, not a socket: it was mounted before there was a socket; start %s first, remove the folder, mount again", path, d.Name)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Sprintf("%s is no socket (%s): set %s to where %s listens", path, info.Mode(), d.Setting, d.Name)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return ""
	}
	return d.dialProblem(path, uid, info, err)
}

func (d Daemon) dialProblem(path string, uid int, info fs.FileInfo, err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		owner, group := owner(info)
		return fmt.Sprintf("uid %d may not use %s (uid %s, gid %s, mode %#o): add the user to the socket's group (gid %s), or run as root",
			uid, path, owner, group, info.Mode().Perm(), group)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nobody listens at %s: the %s daemon has stopped; start it", path, d.Name)
	default:
		return fmt.Sprintf("connecting to %s: %s", path, oneline.Of(err.Error()))
	}
}
