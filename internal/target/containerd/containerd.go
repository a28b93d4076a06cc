// Package containerd loads images into a containerd: through ctr or nerdctl on this host, and, for clusters, through
// the ctr of a node. It owns where containerd listens, the names an image must answer to, what "the same image" means
// there, the proof that it is whole, and that nothing is left of one that is not. It knows no registry, no store and
// no key, and reads the environment only through its options.
package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/disk"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/oneline"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/socket"
)

// DefaultNamespace is where the kubelet's images are.
const DefaultNamespace = "k8s.io"

// DefaultTimeout is how long a containerd may take to say who it is.
const DefaultTimeout = 15 * time.Second

// DefaultLimits are how long a client of a containerd may be silent. It says nothing while an image is unpacked, which takes
// many minutes for a large one on a slow disk.
func DefaultLimits() command.Limits {
	return command.Limits{Call: time.Minute, Stall: 2 * time.Minute, Quiet: 20 * time.Minute}
}

// Where containerd listens. K3s and RKE2 bring their own and put it in the same place.
const (
	usualSocket = "/run/containerd/containerd.sock"
	k3sSocket   = "/run/k3s/containerd/containerd.sock"
)

// Options say which containerd is meant. The zero value is the one of this host.
type Options struct {
	// Namespace is containerd's; "" is DefaultNamespace.
	Namespace string
	// Address is the path of its socket; "" is what the environment says, or what is there.
	Address string
	// Getenv reads the environment: CONTAINERD_ADDRESS and CONTAINERD_SNAPSHOTTER. nil is an empty environment.
	Getenv func(string) string
	// Runner runs ctr and nerdctl; nil is command.Host.
	Runner command.Runner
	// Files is this host's file system, for the configuration of K3s and RKE2; nil is the real one.
	Files fs.FS
	// Timeout bounds the first question to containerd. 0 is DefaultTimeout.
	Timeout time.Duration
	// Limits are how long a client may be silent; the zero value is DefaultLimits.
	Limits command.Limits
	// PartSize is as in Namespace.
	PartSize int64
}

// Containerd is a containerd of this host as a target.
type Containerd struct {
	opts       Options
	address    string
	namespaces []*Namespace // through each client that may be there, the preferred one first
}

var _ target.Expecter = (*Containerd)(nil)

// New finds out where containerd listens; it does not talk to it.
func New(opts Options) *Containerd {
	opts.Namespace = cmp.Or(opts.Namespace, DefaultNamespace)
	opts.Timeout = cmp.Or(opts.Timeout, DefaultTimeout)
	if opts.Getenv == nil {
		opts.Getenv = func(string) string { return "" }
	}
	if opts.Runner == nil {
		opts.Runner = command.Host{}
	}
	if opts.Files == nil {
		opts.Files = os.DirFS("/")
	}
	opts.Runner = command.Limited{Runner: opts.Runner, Limits: cmp.Or(opts.Limits, DefaultLimits())}
	c := &Containerd{opts: opts, address: address(opts)}
	flags := []string{"--address", c.address, "--namespace", opts.Namespace}
	for _, program := range [][]string{{"ctr"}, {"k3s", "ctr"}, {"/var/lib/rancher/rke2/bin/ctr"}} {
		ctr := &Ctr{Runner: opts.Runner, Argv: append(program, flags...), Config: c.config}
		c.namespaces = append(c.namespaces, &Namespace{Client: ctr, Room: room, PartSize: opts.PartSize})
	}
	nerdctl := &Nerdctl{Runner: opts.Runner, Argv: append([]string{"nerdctl"}, flags...)}
	c.namespaces = append(c.namespaces, &Namespace{Client: nerdctl})
	return c
}

// room asks this machine's file systems, where containerd's folders are.
func room(_ context.Context, about About, need int64) error {
	for _, root := range about.Roots {
		if err := disk.Room(root, need); err != nil {
			return err
		}
	}
	return nil
}

// address is where containerd listens. The one of K3s goes first: who has it means it, and on a hosted runner there is
// Docker's in the usual place.
func address(opts Options) string {
	if said := cmp.Or(opts.Address, opts.Getenv("CONTAINERD_ADDRESS")); said != "" {
		return said
	}
	if socket.Is(k3sSocket) {
		return k3sSocket
	}
	return usualSocket
}

// config is containerd's configuration as far as it can be had.
func (c *Containerd) config(ctx context.Context) string {
	if c.opts.Getenv("CONTAINERD_SNAPSHOTTER") != "" {
		return "" // ctr reads it itself
	}
	switch c.address {
	case usualSocket:
		out, err := c.opts.Runner.Run(ctx, command.Command{Argv: []string{"containerd", "config", "dump"}})
		if err != nil {
			return ""
		}
		return out.Stdout
	case k3sSocket:
		for _, distribution := range []string{"k3s", "rke2"} {
			if data, err := fs.ReadFile(c.opts.Files, "var/lib/rancher/"+distribution+"/agent/etc/containerd/config.toml"); err == nil {
				return string(data)
			}
		}
	}
	return ""
}

// Platform implements target.Target.
func (c *Containerd) Platform(ctx context.Context) (platform.Platform, error) {
	_, about, err := c.open(ctx)
	return about.Platform, err
}

// Expect implements target.Expecter.
func (c *Containerd) Expect(ctx context.Context, images []image.Image) {
	if namespace, _, err := c.open(ctx); err == nil {
		namespace.Expect(ctx, images)
	}
}

// Load implements target.Target.
func (c *Containerd) Load(ctx context.Context, img image.Image) (target.Result, error) {
	namespace, _, err := c.open(ctx)
	if err != nil {
		return target.Result{}, err
	}
	return namespace.Load(ctx, img)
}

// open finds a client that is there and has containerd say who it is.
func (c *Containerd) open(ctx context.Context) (*Namespace, About, error) {
	if problem := daemon().Problem(ctx, c.address, os.Getuid()); problem != "" && ctx.Err() == nil {
		return nil, About{}, fmt.Errorf("%w: %s", target.ErrUnavailable, problem)
	}
	asking, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	for _, namespace := range c.namespaces {
		about, err := namespace.About(asking)
		switch {
		case err == nil:
			return namespace, about, nil
		case errors.Is(err, command.ErrNotFound):
			continue
		case ctx.Err() != nil:
			return nil, About{}, fmt.Errorf("asking containerd: %w", context.Cause(ctx))
		case asking.Err() != nil:
			return nil, About{}, fmt.Errorf("%w: containerd at %s did not answer within %s: see its log", target.ErrUnavailable, c.address, c.opts.Timeout)
		default:
			return nil, About{}, fmt.Errorf("%w: containerd at %s: %s", target.ErrUnavailable, c.address, oneline.Of(err.Error()))
		}
	}
	return nil, About{}, fmt.Errorf("%w: containerd listens at %s, but there is neither ctr nor nerdctl to talk to it: put one of them on PATH", target.ErrUnavailable, c.address)
}

func daemon() socket.Daemon { return socket.Daemon{Name: "containerd", Setting: "CONTAINERD_ADDRESS"} }
