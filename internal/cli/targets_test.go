package cli

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/report"
)

func TestTargetsByName(t *testing.T) {
	t.Parallel()
	s := &session{Process: Process{LookupEnv: func(string) (string, bool) { return "", false }}}
	targets, err := s.targets([]string{"docker", "kind", "kind:other", "containerd", "containerd:default", "podman", "none", "docker"})
	require.NoError(t, err)
	var names []string
	for _, target := range targets {
		names = append(names, target.Name)
	}
	require.Equal(t, []string{"docker", "kind", "kind:other", "containerd", "containerd:default", "podman", "none"}, names)

	for _, name := range []string{"", "dokcer", "docker:x", "kind:", "containerd:", "podman:x", "none:"} {
		_, err := s.targets([]string{name})
		usage, ok := errors.AsType[usageError](err)
		require.True(t, ok, name)
		require.Contains(t, usage.hint, "kind[:CLUSTER]")
	}
}

func TestLoadedIsWhatEveryTargetHas(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"b"}, inEveryTarget(report.Report{Images: []report.Image{
		{Reference: "a", Target: "docker", Source: report.Cache}, {Reference: "b", Target: "docker", Source: report.Present},
		{Reference: "a", Target: "kind", Source: report.Nowhere}, {Reference: "b", Target: "kind", Source: report.Registry},
	}}))
}
