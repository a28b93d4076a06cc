// Package docker loads images into a Docker daemon through its Engine API, whichever image store the daemon uses. It
// owns where the daemon listens, what "the same image" means there, and the proof that an image answers to its
// reference. It knows no registry, no store and no key, and reads the environment only through its options.
package docker

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/moby/moby/client"

	"github.com/pullonce/pullonce/internal/oneline"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/target"
)

// DefaultTimeout is how long a daemon may take to say who it is.
const DefaultTimeout = 15 * time.Second

// driverContainerd is what an engine with the containerd image store says in its info, under "driver-type" (moby,
// daemon/containerd).
const driverContainerd = "io.containerd.snapshotter.v1"

// Options say which daemon is meant. The zero value is the daemon at the usual socket.
type Options struct {
	// Host is where the daemon listens, as DOCKER_HOST says it: "unix:///path" or "tcp://host:port". "" is what Context
	// and the environment say.
	Host string
	// Context names a docker context. "" is what the environment and the config file say.
	Context string
	// ConfigDir is the folder of the docker command's config.json and contexts. "" is DOCKER_CONFIG, else $HOME/.docker.
	ConfigDir string
	// Getenv reads the environment: DOCKER_HOST, DOCKER_CONTEXT, DOCKER_CONFIG, DOCKER_CERT_PATH, DOCKER_TLS_VERIFY,
	// XDG_RUNTIME_DIR and HOME. nil is an empty environment.
	Getenv func(string) string
	// Timeout bounds the first question to the daemon. 0 is DefaultTimeout.
	Timeout time.Duration
	// ReadsZstd says that what listens reads layers in zstd, whatever version of the API it speaks: it is no Docker.
	ReadsZstd bool
	// Way is how images get into the daemon, Best where it is zero.
	Way Way
	// Limits bound what follows. A load as a whole is not bounded: it takes what it takes, as long as it goes on.
	Limits Limits
}

// Docker is a Docker daemon as a target.
type Docker struct {
	endpoint endpoint
	api      *client.Client
	timeout  time.Duration
	limits   Limits
	way      Way
	zstd     bool
	known    atomic.Pointer[daemon]
	// unreached remembers that the daemon can't pull from this process.
	unreached atomic.Bool
	// images and names serialise what two loads of this process would do to one image or to one name.
	images, names target.Locks
	// pulled are the layers that the daemon has from pulls of this process.
	pulled pulled
}

var _ target.Teller = (*Docker)(nil)

// New finds out where the daemon listens; it does not talk to it. An address that can't be used, such as a docker
// context that does not exist or one behind ssh, is target.ErrUnavailable.
func New(opts Options) (*Docker, error) {
	e, err := resolve(opts)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", target.ErrUnavailable, err)
	}
	api, err := e.client()
	if err != nil {
		return nil, fmt.Errorf("%w: Docker at %s: %s", target.ErrUnavailable, e, oneline.Of(err.Error()))
	}
	timeout := opts.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	return &Docker{endpoint: e, api: api, timeout: timeout, way: opts.Way, zstd: opts.ReadsZstd, limits: opts.Limits.withDefaults()}, nil
}

// Close lets go of idle connections. Loads that run are not touched.
func (d *Docker) Close() error { return d.api.Close() }

// Platform is the platform of the daemon's containers.
func (d *Docker) Platform(ctx context.Context) (platform.Platform, error) {
	known, err := d.daemon(ctx)
	if err != nil {
		return platform.Platform{}, err
	}
	return known.platform, nil
}

// Twice implements target.Teller. Two pulls at the same time unpack what they share once each in a containerd store; a classic
// one has the second wait for the first.
func (d *Docker) Twice(ctx context.Context) bool {
	known, err := d.daemon(ctx)
	return err == nil && known.containerd
}

// daemon is what a daemon says of itself.
type daemon struct {
	platform platform.Platform
	// containerd says that images live in containerd's store, where an image's id is the digest of its root or manifest.
	// In the classic store it is the digest of the config.
	containerd bool
	version    string
	// root is the daemon's data folder, on its own file system.
	root string
}

// daemon asks the daemon who it is, once.
func (d *Docker) daemon(ctx context.Context) (daemon, error) {
	if known := d.known.Load(); known != nil {
		return *known, nil
	}
	asking, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	known, err := d.ask(asking)
	switch {
	case err == nil:
		d.known.Store(&known)
		return known, nil
	case ctx.Err() != nil:
		return daemon{}, fmt.Errorf("asking the Docker daemon: %w", context.Cause(ctx))
	default:
		return daemon{}, d.unavailable(ctx, err)
	}
}

func (d *Docker) ask(ctx context.Context) (daemon, error) {
	ping, err := d.api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err != nil {
		return daemon{}, err
	}
	if ping.APIVersion == "" {
		return daemon{}, errNoEngine
	}
	version, err := d.api.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return daemon{}, err
	}
	info, err := d.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return daemon{}, err
	}
	known := daemon{
		platform: platform.Normalize(platform.Platform{OS: version.Os, Architecture: version.Arch}),
		version:  version.Version,
		root:     info.Info.DockerRootDir,
	}
	if info.Info.Architecture == "armv6l" {
		known.platform.Variant = "v6"
	}
	for _, status := range info.Info.DriverStatus {
		known.containerd = known.containerd || status == [2]string{"driver-type", driverContainerd}
	}
	return known, nil
}
