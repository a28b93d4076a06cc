package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/pullonce/pullonce/internal/oneline"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/socket"
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
		if problem := socketDaemon().Problem(ctx, e.address, os.Getuid()); problem != "" {
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

// socketDaemon is the words for what keeps a user from the daemon's socket.
func socketDaemon() socket.Daemon { return socket.Daemon{Name: "Docker", Setting: "DOCKER_HOST"} }
