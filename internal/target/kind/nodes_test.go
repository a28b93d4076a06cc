package kind

import (
	"errors"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/target"
)

func named(cluster, name, role string, state container.ContainerState) node {
	return node{id: "id-" + name, name: name, cluster: cluster, role: role, state: state}
}

// twoClusters are one that runs, with a stopped worker, and one that does not.
func twoClusters() []node {
	return []node{
		named("kind", "kind-control-plane", "control-plane", "running"),
		named("kind", "kind-worker", "worker", "running"),
		named("kind", "kind-worker2", "worker", "exited"),
		named("old", "old-control-plane", "control-plane", "exited"),
	}
}

func names(nodes []node) (all []string) {
	for _, n := range nodes {
		all = append(all, n.name)
	}
	return all
}

func TestClusterIsTheNamedOrTheOnlyOneThatRuns(t *testing.T) {
	t.Parallel()
	second := append(twoClusters(), named("new", "new-control-plane", "control-plane", "running"))
	for name, test := range map[string]struct {
		nodes   []node
		cluster string
		want    []string
		err     string
	}{
		"the only one":        {twoClusters(), "", []string{"kind-control-plane", "kind-worker", "kind-worker2"}, ""},
		"named":               {second, "new", []string{"new-control-plane"}, ""},
		"named, and stopped":  {twoClusters(), "old", []string{"old-control-plane"}, ""},
		"none at all":         {nil, "", nil, "no kind cluster runs: kind create cluster goes before the load"},
		"none of that name":   {nil, "kind", nil, `there is no kind cluster "kind": kind create cluster goes before the load`},
		"another of the name": {twoClusters(), "knid", nil, `there is no kind cluster "knid" (there is kind, old): kind create cluster goes before the load`},
		"none that runs":      {twoClusters()[3:], "", nil, "no kind cluster runs: kind create cluster goes before the load"},
		"two that run":        {second, "", nil, "several kind clusters run (kind, new): say which, as in kind:NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := of(test.nodes, test.cluster)
			require.Equal(t, test.want, names(got))
			if test.err != "" {
				require.ErrorIs(t, err, target.ErrUnavailable)
				require.EqualError(t, err, "target unavailable: "+test.err)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestNodesAreChosenByNameOrRole(t *testing.T) {
	t.Parallel()
	nodes := twoClusters()[:3]
	for _, test := range []struct {
		parts, want []string
		err         string
	}{
		{nil, []string{"kind-control-plane", "kind-worker", "kind-worker2"}, ""},
		{[]string{"worker"}, []string{"kind-worker", "kind-worker2"}, ""},
		{[]string{"kind-worker2", "control-plane"}, []string{"kind-control-plane", "kind-worker2"}, ""},
		{[]string{"worker", "kind-worker3"}, nil, "nodes=kind-worker3: no node has that name or role: there are " +
			"kind-control-plane (control-plane), kind-worker (worker), kind-worker2 (worker)"},
	} {
		got, err := choose(nodes, test.parts)
		require.Equal(t, test.want, names(got))
		if test.err != "" {
			require.EqualError(t, err, test.err)
		} else {
			require.NoError(t, err)
		}
	}
}

func TestNodeThatDoesNotRun(t *testing.T) {
	t.Parallel()
	require.NoError(t, twoClusters()[0].usable())
	require.EqualError(t, twoClusters()[2].usable(), "its container is exited: docker start kind-worker2")
}

func TestNameIsNotThatOfALink(t *testing.T) {
	t.Parallel()
	require.Equal(t, "kind-worker", name(container.Summary{ID: "1", Names: []string{"/other/alias", "/kind-worker"}}))
	require.Equal(t, "1", name(container.Summary{ID: "1"}))
}

func TestResultOfAllNodes(t *testing.T) {
	t.Parallel()
	require.Equal(t, target.Result{Outcome: target.Loaded, Sent: 30, Replaced: "sha256:1"}, merge([]target.Result{
		{Outcome: target.Present}, {Outcome: target.Loaded, Sent: 10, Replaced: "sha256:1"}, {Outcome: target.Loaded, Sent: 20, Replaced: "sha256:2"}, {},
	}))
	require.Equal(t, target.Result{Outcome: target.Tagged}, merge([]target.Result{{Outcome: target.Tagged}, {Outcome: target.Present}}))
}

func TestOneErrorForAllNodes(t *testing.T) {
	t.Parallel()
	nodes := twoClusters()
	require.NoError(t, failed(nodes, make([]error, 4)))
	err := failed(nodes, []error{nil, image.ErrRead, nil, errors.New("no space")})
	require.EqualError(t, err, "node kind-worker: reading the image; node old-control-plane: no space; the other 2 nodes have the image")
	require.ErrorIs(t, err, image.ErrRead)
	require.EqualError(t, failed(nodes[:2], []error{errors.New("a"), nil}), "node kind-control-plane: a; the other node has the image")
	require.EqualError(t, failed(nodes[:1], []error{errors.New("a")}), "node kind-control-plane: a")
}
