// Package kind loads images into the nodes of a kind cluster: containers of a Docker engine that run a containerd each.
// It owns which containers are nodes, which of them an image is meant for, and how a program runs in one. It knows no
// registry, no store and no key; what an image means to a containerd is target/containerd's.
package kind

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/client"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/disk"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/fanout"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/containerd"
	"github.com/pullonce/pullonce/internal/target/docker"
)

// How long is waited for a node that does nothing.
const (
	// DefaultStall is how long a node may take no byte of an image before it is given up.
	DefaultStall = time.Minute
	// DefaultCall bounds a question or an order that is answered at once, by the engine or by a program in a node.
	DefaultCall = time.Minute
)

// settle is how long an engine may take to notice that a program has ended.
const settle = 10 * time.Second

// Options say which cluster is meant.
type Options struct {
	// Cluster is its name; "" is what the environment says, or the only cluster that runs.
	Cluster string
	// Engine is the Docker engine that the nodes are containers of.
	Engine *docker.Docker
	// Getenv reads the environment: KIND_CLUSTER, and kind's own KIND_CLUSTER_NAME. nil is an empty environment.
	Getenv func(string) string
	// Stall is how long a node may take no byte; 0 is DefaultStall.
	Stall time.Duration
	// Call bounds what is answered at once; 0 is DefaultCall.
	Call time.Duration
	// PartSize is as in containerd.Namespace.
	PartSize int64
}

// Kind is a kind cluster as a target.
type Kind struct {
	*cluster
	parts []string // the roles or names of nodes that images are for; none is all
}

// cluster is what all narrowings of one target share.
type cluster struct {
	Options
	announcing sync.Mutex

	mu    sync.Mutex
	nodes map[string]*containerd.Namespace // by the id of their container
}

var (
	_ target.Selector = (*Kind)(nil)
	_ target.Preparer = (*Kind)(nil)
	_ target.Expecter = (*Kind)(nil)
)

// New is the target; it talks to nobody.
func New(opts Options) *Kind {
	if opts.Getenv == nil {
		opts.Getenv = func(string) string { return "" }
	}
	opts.Stall = cmp.Or(opts.Stall, DefaultStall)
	opts.Call = cmp.Or(opts.Call, DefaultCall)
	for _, name := range []string{"KIND_CLUSTER", "KIND_CLUSTER_NAME"} {
		if opts.Cluster == "" {
			opts.Cluster = opts.Getenv(name)
		}
	}
	return &Kind{cluster: &cluster{Options: opts, nodes: map[string]*containerd.Namespace{}}}
}

// Only implements target.Selector.
func (k *Kind) Only(parts []string) target.Target { return &Kind{cluster: k.cluster, parts: parts} }

// Platform implements target.Target: nodes run on the engine's own.
func (k *Kind) Platform(ctx context.Context) (platform.Platform, error) {
	if _, err := k.list(ctx); err != nil {
		return platform.Platform{}, err
	}
	return k.Engine.Platform(ctx)
}

// Prepare implements target.Preparer: each node's containerd is asked who it is.
func (k *Kind) Prepare(ctx context.Context) {
	k.each(ctx, func(n *containerd.Namespace) { _, _ = n.About(ctx) })
}

// Expect implements target.Expecter: each node is asked one question for all images.
func (k *Kind) Expect(ctx context.Context, images []image.Image) {
	k.each(ctx, func(n *containerd.Namespace) { n.Expect(ctx, images) })
}

// each calls ask for all nodes at once, as far as they can be spoken to.
func (k *Kind) each(ctx context.Context, ask func(*containerd.Namespace)) {
	nodes, err := k.list(ctx)
	if err != nil {
		return
	}
	api, err := k.Engine.API(ctx)
	if err != nil {
		return
	}
	var asked sync.WaitGroup
	for _, n := range nodes {
		if n.usable() == nil {
			asked.Go(func() { ask(k.namespace(api, n)) })
		}
	}
	asked.Wait()
}

// Load implements target.Target. All nodes are loaded at once from one read of the image, and one that fails or stalls
// fails alone: the others have the image then, and the error says which has not.
func (k *Kind) Load(ctx context.Context, img image.Image) (target.Result, error) {
	all, err := k.list(ctx)
	if err != nil {
		return target.Result{}, err
	}
	nodes, err := choose(all, k.parts)
	if err != nil {
		return target.Result{}, err
	}
	api, err := k.Engine.API(ctx)
	if err != nil {
		return target.Result{}, err
	}
	results, failures := make([]target.Result, len(nodes)), make([]error, len(nodes))
	loads := k.announce(api, nodes, img)
	fanout.Each(ctx, img, len(nodes), func(i int, share image.Image) {
		results[i], failures[i] = loads[i](ctx, share)
	})
	return merge(results), failed(nodes, failures)
}

// announce announces an image to all nodes that it is for, with no other in between, and gives what loads it into each.
func (c *cluster) announce(api *client.Client, nodes []node, img image.Image) []func(context.Context, image.Image) (target.Result, error) {
	c.announcing.Lock()
	defer c.announcing.Unlock()
	loads := make([]func(context.Context, image.Image) (target.Result, error), len(nodes))
	for i, n := range nodes {
		if err := n.usable(); err != nil {
			loads[i] = func(context.Context, image.Image) (target.Result, error) { return target.Result{}, err }
			continue
		}
		loads[i] = c.namespace(api, n).Announce(img)
	}
	return loads
}

// namespace is the images of a node, the same for every load.
func (c *cluster) namespace(api *client.Client, n node) *containerd.Namespace {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.nodes[n.id]; ok {
		return known
	}
	runner := command.Limited{
		// A start in a node costs ten times what it does here, and a twentieth of a second of processor time.
		Runner: &command.Together{Runner: &runner{api: api, node: n, stall: c.Stall, settle: settle, call: c.Call}},
		Limits: command.Limits{Call: c.Call, Quiet: containerd.DefaultLimits().Quiet},
	}
	namespace := &containerd.Namespace{
		Client: &containerd.Ctr{
			Runner: runner, Argv: []string{"ctr", "--namespace", containerd.DefaultNamespace},
			Config: func(ctx context.Context) string { return config(ctx, runner) },
		},
		Room:     func(ctx context.Context, _ containerd.About, need int64) error { return room(ctx, api, c.Call, need) },
		PartSize: c.PartSize,
	}
	c.nodes[n.id] = namespace
	return namespace
}

// room asks for room where the engine keeps the volumes of nodes, if that is on this machine.
func room(ctx context.Context, api *client.Client, limit time.Duration, need int64) error {
	if !strings.HasPrefix(api.DaemonHost(), "unix://") {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	info, err := api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return nil //nolint:nilerr // whether there is room is not known then, and the load will tell
	}
	return disk.Room(info.Info.DockerRootDir, need)
}

// merge is what the loads of all nodes came to.
func merge(results []target.Result) target.Result {
	var sum target.Result
	for _, outcome := range []target.Outcome{target.Present, target.Tagged, target.Loaded} { // the most that was done
		if slices.ContainsFunc(results, func(r target.Result) bool { return r.Outcome == outcome }) {
			sum.Outcome = outcome
		}
	}
	for _, r := range results {
		sum.Sent += r.Sent
		if sum.Replaced == "" {
			sum.Replaced = r.Replaced
		}
	}
	return sum
}

// failed is the one error of a load, or nil.
func failed(nodes []node, failures []error) error {
	var e nodesError
	for i, err := range failures {
		if err != nil {
			e.causes = append(e.causes, fmt.Errorf("node %s: %w", nodes[i].name, err))
		}
	}
	if len(e.causes) == 0 {
		return nil
	}
	e.others = len(nodes) - len(e.causes)
	return &e
}

// nodesError is the nodes that an image could not be loaded into, in one line.
type nodesError struct {
	causes []error
	others int
}

// Error implements error.
func (e *nodesError) Error() string {
	said := make([]string, len(e.causes))
	for i, cause := range e.causes {
		said[i] = cause.Error()
	}
	text := strings.Join(said, "; ")
	switch {
	case e.others == 1:
		text += "; the other node has the image"
	case e.others > 1:
		text += fmt.Sprintf("; the other %d nodes have the image", e.others)
	}
	return text
}

// Unwrap gives the causes.
func (e *nodesError) Unwrap() []error { return e.causes }
