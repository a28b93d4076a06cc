// Package podman loads images into podman: through its program, or, where there is none, through its socket, which
// speaks Docker's API. It owns which of the two is used, what "the same image" means to podman, the proof that an image
// answers to its references, and that nothing is left of one that does not. It knows no registry, no store and no key,
// and reads the environment only through its options.
package podman

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/oneline"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/docker"
	"github.com/pullonce/pullonce/internal/target/socket"
)

// DefaultTimeout is how long podman may take to say who it is.
const DefaultTimeout = 15 * time.Second

// DefaultLimits are how long podman's program may be silent. It says nothing while it takes a spooled archive apart, which
// takes many minutes for a large one on a slow disk.
func DefaultLimits() command.Limits {
	return command.Limits{Call: time.Minute, Stall: 2 * time.Minute, Quiet: 20 * time.Minute}
}

// usualSocket is where podman's service with root's rights listens.
const usualSocket = "/run/podman/podman.sock"

// Options say which podman is meant. The zero value is the program on PATH, else the usual socket.
type Options struct {
	// Getenv reads the environment: CONTAINER_HOST, which names a socket and is preferred to the program, and
	// XDG_RUNTIME_DIR. nil is an empty environment.
	Getenv func(string) string
	// Runner runs podman; nil is command.Host.
	Runner command.Runner
	// Socket is where the service listens as a rule; "" is /run/podman/podman.sock.
	Socket string
	// Timeout bounds the first question. 0 is DefaultTimeout.
	Timeout time.Duration
	// Limits are how long the program may be silent; the zero value is DefaultLimits.
	Limits command.Limits
}

// Podman is podman as a target.
type Podman struct {
	opts   Options
	socket string // "" is the program
	chosen atomic.Pointer[target.Target]
}

var _ target.Target = (*Podman)(nil)

// New is the target; it talks to nobody.
func New(opts Options) *Podman {
	if opts.Getenv == nil {
		opts.Getenv = func(string) string { return "" }
	}
	if opts.Runner == nil {
		opts.Runner = command.Host{}
	}
	opts.Runner = command.Limited{Runner: opts.Runner, Limits: cmp.Or(opts.Limits, DefaultLimits())}
	opts.Timeout = cmp.Or(opts.Timeout, DefaultTimeout)
	opts.Socket = cmp.Or(opts.Socket, usualSocket)
	return &Podman{opts: opts, socket: opts.Getenv("CONTAINER_HOST")}
}

// Platform implements target.Target.
func (p *Podman) Platform(ctx context.Context) (platform.Platform, error) {
	t, err := p.open(ctx)
	if err != nil {
		return platform.Platform{}, err
	}
	return t.Platform(ctx)
}

// Load implements target.Target.
func (p *Podman) Load(ctx context.Context, img image.Image) (target.Result, error) {
	t, err := p.open(ctx)
	if err != nil {
		return target.Result{}, err
	}
	if img.Recompressed() && img.Reference().Digest() != "" {
		return target.Result{}, fmt.Errorf("loading %s into podman: %w: podman would answer to no digest of the image", img.Reference().Familiar(), target.ErrRecompressed)
	}
	return t.Load(ctx, img)
}

// open decides between the program and the socket, once.
func (p *Podman) open(ctx context.Context) (target.Target, error) {
	if chosen := p.chosen.Load(); chosen != nil {
		return *chosen, nil
	}
	chosen, err := p.choose(ctx)
	if err != nil {
		return nil, err
	}
	p.chosen.Store(&chosen)
	return chosen, nil
}

func (p *Podman) choose(ctx context.Context) (target.Target, error) {
	if p.socket != "" {
		return p.service(ctx, p.socket, "")
	}
	asking, cancel := context.WithTimeout(ctx, p.opts.Timeout)
	defer cancel()
	local := &program{runner: p.opts.Runner}
	_, err := local.about(asking)
	switch {
	case err == nil:
		return local, nil
	case errors.Is(err, command.ErrNotFound):
		return p.service(ctx, "unix://"+p.usual(), "podman is not on PATH, and ")
	case ctx.Err() != nil:
		return nil, fmt.Errorf("asking podman: %w", context.Cause(ctx))
	case asking.Err() != nil:
		return nil, fmt.Errorf("%w: podman info did not answer within %s", target.ErrUnavailable, p.opts.Timeout)
	default:
		return nil, fmt.Errorf("%w: %s", target.ErrUnavailable, oneline.Of(err.Error()))
	}
}

// usual is the system's socket, or the user's own where only that is there.
func (p *Podman) usual() string {
	if runtime := p.opts.Getenv("XDG_RUNTIME_DIR"); runtime != "" && !socket.Is(p.opts.Socket) {
		if own := filepath.Join(runtime, "podman", "podman.sock"); socket.Is(own) {
			return own
		}
	}
	return p.opts.Socket
}

// service is podman behind its socket: a Docker engine, but for what it does with digests, which Docker's classic store
// forgets and podman keeps. What else was tried goes before the reason why it is not there.
func (p *Podman) service(ctx context.Context, host, tried string) (target.Target, error) {
	if path, ok := strings.CutPrefix(host, "unix://"); ok {
		if problem := daemon().Problem(ctx, path, os.Getuid()); problem != "" && ctx.Err() == nil {
			return nil, fmt.Errorf("%w: %s%s", target.ErrUnavailable, tried, problem)
		}
	}
	return docker.New(docker.Options{Host: host, Timeout: p.opts.Timeout, ReadsZstd: true})
}

func daemon() socket.Daemon { return socket.Daemon{Name: "podman", Setting: "CONTAINER_HOST"} }
