package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/pullonce/pullonce/internal/oneline"
	"github.com/pullonce/pullonce/internal/target"
)

// errNoEngine says that something answers in HTTP which is no Docker engine: it names no API version.
var errNoEngine = errors.New("it names no API version")

// unavailable says in one line why nobody answers, and what to do.
func (d *Docker) unavailable(ctx context.Context, cause error) error {
	return fmt.Errorf("%w: %s", target.ErrUnavailable, d.why(ctx, cause))
}

func (d *Docker) why(ctx context.Context, cause error) string {
	e := d.endpoint
	if e.scheme == "unix" {
		if problem := socketProblem(ctx, e.address, os.Getuid()); problem != "" {
			return problem + e.from()
		}
	}
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Sprintf("Docker at %s did not answer within %s: see the daemon's log", e, d.timeout) + e.from()
	case e.scheme == "unix":
		return fmt.Sprintf("what answers at %s is no Docker engine that can be used (%s): set DOCKER_HOST to the engine's socket",
			e, bare(cause)) + e.from()
	default:
		return fmt.Sprintf("no Docker engine answers at %s (%s): start it, or set DOCKER_HOST to where it listens, and DOCKER_CERT_PATH where it wants TLS",
			e, bare(cause)) + e.from()
	}
}

// bare is what went wrong, without the words that the client and HTTP put in front.
func bare(err error) string {
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op != "dial" {
		err = op.Err
	}
	text := strings.TrimPrefix(err.Error(), "Error response from daemon: ")
	return oneline.Of(strings.TrimPrefix(text, "net/http: HTTP/1.x transport connection broken: "))
}

// from says who named the address.
func (e endpoint) from() string {
	if e.source == "" {
		return ""
	}
	return " (address from " + e.source + ")"
}

// socketProblem finds what keeps uid from a Unix socket, or "" where it can be connected to. The connection that
// failed lost its cause on the way here, so another is tried.
func socketProblem(ctx context.Context, path string, uid int) string {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("no Docker daemon: %s does not exist: start Docker, or set DOCKER_HOST to where it listens", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("uid %d may not look into the folder of %s: run as a user that may, or set DOCKER_HOST to a socket within reach", uid, path)
	case err != nil:
		return oneline.Of(err.Error())
	case info.IsDir():
		return fmt.Sprintf("%s is a folder, not a socket: it was mounted before there was a socket; start Docker first, remove the folder, mount again", path)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Sprintf("%s is no socket (%s): set DOCKER_HOST to where Docker listens", path, info.Mode())
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return ""
	}
	return dialProblem(path, uid, info, err)
}

func dialProblem(path string, uid int, info fs.FileInfo, err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		owner, group := owner(info)
		return fmt.Sprintf("uid %d may not use %s (uid %s, gid %s, mode %#o): add the user to the socket's group (gid %s), or run as root",
			uid, path, owner, group, info.Mode().Perm(), group)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nobody listens at %s: the Docker daemon has stopped; start it", path)
	default:
		return fmt.Sprintf("connecting to %s: %s", path, oneline.Of(err.Error()))
	}
}
