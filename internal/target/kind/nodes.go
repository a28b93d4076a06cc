package kind

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/pullonce/pullonce/internal/oneline"
	"github.com/pullonce/pullonce/internal/target"
)

// The labels of kind's containers (kind, pkg/cluster/constants), and the role that has no containerd.
const (
	labelCluster     = "io.x-k8s.kind.cluster"
	labelRole        = "io.x-k8s.kind.role"
	roleLoadBalancer = "external-load-balancer"
)

// node is one container that is a node.
type node struct {
	id, name, cluster, role string
	// state is the container's, as in "running".
	state container.ContainerState
}

// usable refuses a node that can't be spoken to.
func (n node) usable() error {
	if n.state == container.StateRunning {
		return nil
	}
	return fmt.Errorf("its container is %s: docker start %s", oneline.Of(string(n.state)), n.name)
}

// list are the nodes of the cluster, by name.
func (c *cluster) list(ctx context.Context) ([]node, error) {
	api, err := c.Engine.API(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := nodesOf(ctx, api, c.Call)
	if err != nil {
		return nil, err
	}
	return of(nodes, c.Cluster)
}

// nodesOf are the nodes of all clusters of an engine, by name.
func nodesOf(ctx context.Context, api *client.Client, limit time.Duration) ([]node, error) {
	var found client.ContainerListResult
	err := briefly(ctx, limit, func(ctx context.Context) (err error) {
		found, err = api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelCluster)})
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("listing the nodes of kind clusters: %s", oneline.Of(err.Error()))
	}
	var nodes []node
	for _, s := range found.Items {
		if role := s.Labels[labelRole]; role != roleLoadBalancer {
			nodes = append(nodes, node{id: s.ID, name: name(s), cluster: s.Labels[labelCluster], role: role, state: s.State})
		}
	}
	slices.SortFunc(nodes, func(a, b node) int { return cmp.Compare(a.name, b.name) })
	return nodes, nil
}

// name is the container's own; links of others to it have a second slash.
func name(s container.Summary) string {
	for _, name := range s.Names {
		if name = strings.TrimPrefix(name, "/"); name != "" && !strings.Contains(name, "/") {
			return name
		}
	}
	return s.ID
}

// of are the nodes of the named cluster, or of the only one that runs.
func of(nodes []node, cluster string) ([]node, error) {
	running, known := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		known[n.cluster] = true
		running[n.cluster] = running[n.cluster] || n.state == container.StateRunning
	}
	maps.DeleteFunc(running, func(_ string, runs bool) bool { return !runs })
	switch {
	case cluster != "" && !known[cluster]:
		return nil, unavailable("there is no kind cluster %q%s: kind create cluster goes before the load", cluster, others(known))
	case cluster == "" && len(running) == 0:
		return nil, unavailable("no kind cluster runs: kind create cluster goes before the load")
	case cluster == "" && len(running) > 1:
		return nil, unavailable("several kind clusters run (%s): say which, as in kind:NAME", list(running))
	case cluster == "":
		cluster = list(running)
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n node) bool { return n.cluster != cluster }), nil
}

func unavailable(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{target.ErrUnavailable}, args...)...)
}

func others(known map[string]bool) string {
	if len(known) == 0 {
		return ""
	}
	return " (there is " + list(known) + ")"
}

func list(names map[string]bool) string {
	return oneline.Of(strings.Join(slices.Sorted(maps.Keys(names)), ", "))
}

// choose are the nodes that have one of the parts as their name or role. Every part must be somebody's.
func choose(nodes []node, parts []string) ([]node, error) {
	if len(parts) == 0 {
		return nodes, nil
	}
	for _, part := range parts {
		if !slices.ContainsFunc(nodes, func(n node) bool { return n.is(part) }) {
			return nil, fmt.Errorf("nodes=%s: no node has that name or role: there are %s", part, describe(nodes))
		}
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n node) bool { return !slices.ContainsFunc(parts, n.is) }), nil
}

func (n node) is(part string) bool { return n.name == part || n.role == part }

func describe(nodes []node) string {
	said := make([]string, len(nodes))
	for i, n := range nodes {
		said[i] = fmt.Sprintf("%s (%s)", n.name, n.role)
	}
	return oneline.Of(strings.Join(said, ", "))
}
