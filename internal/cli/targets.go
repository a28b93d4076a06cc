package cli

import (
	"errors"
	"strings"

	"github.com/pullonce/pullonce/internal/lane"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/containerd"
	"github.com/pullonce/pullonce/internal/target/docker"
	"github.com/pullonce/pullonce/internal/target/kind"
	"github.com/pullonce/pullonce/internal/target/podman"
)

// backend makes a target of what stands behind the colon of its name.
type backend struct {
	open func(address string) (target.Target, error)
	// addressed says that something may stand there.
	addressed bool
}

// backends are the targets by the word that selects them.
func (s *session) backends() map[string]backend {
	engine := func() (*docker.Docker, error) { return docker.New(docker.Options{Getenv: s.getenv}) }
	return map[string]backend{
		"docker": {open: func(string) (target.Target, error) { return engine() }},
		"kind": {addressed: true, open: func(cluster string) (target.Target, error) {
			docker, err := engine()
			if err != nil {
				return nil, err
			}
			return kind.New(kind.Options{Cluster: cluster, Engine: docker, Getenv: s.getenv}), nil
		}},
		"containerd": {addressed: true, open: func(namespace string) (target.Target, error) {
			return containerd.New(containerd.Options{Namespace: namespace, Getenv: s.getenv}), nil
		}},
		"podman": {open: func(string) (target.Target, error) { return podman.New(podman.Options{Getenv: s.getenv}), nil }},
		"none":   {open: func(string) (target.Target, error) { return target.None{}, nil }},
	}
}

// targets are those that the into option names, each once.
func (s *session) targets(into []string) ([]lane.Target, error) {
	if len(into) == 0 {
		return nil, usagef("into is one or more of docker, kind[:CLUSTER], containerd[:NAMESPACE], podman and none", "into names no target")
	}
	backends := s.backends()
	var targets []lane.Target
	seen := map[string]bool{}
	for _, name := range into {
		if seen[name] {
			continue
		}
		seen[name] = true
		scheme, address, colon := strings.Cut(name, ":")
		b, ok := backends[scheme]
		if !ok || colon && (!b.addressed || address == "") {
			return nil, usagef(oneEach(name, "into is one or more of docker, kind[:CLUSTER], containerd[:NAMESPACE], podman and none"), "unknown target %q", name)
		}
		t, err := b.open(address)
		if errors.Is(err, target.ErrUnavailable) {
			t, err = target.Unavailable{Err: err}, nil
		}
		if err != nil {
			return nil, err
		}
		targets = append(targets, lane.Target{Name: name, Target: t})
	}
	return targets, nil
}
