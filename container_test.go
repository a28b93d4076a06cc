package main_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// containerHead and containerRuns are what the container variant says for itself; the inputs and outputs between them are
// those of the composite.
const (
	containerHead = `name: pullonce (container)
description: Pull each container image once per workflow run, load it everywhere. The variant that runs as a container.
branding:
  icon: download-cloud
  color: blue

# The composite at the root of this repository is the action to use. This one is for runners where a run: step can't start
# a binary of the action. The runner hands it the cache service's token itself, mounts the Docker socket, and sets HOME to
# /github/home: for credentials of "docker login", DOCKER_CONFIG says where they are.
#
# Inputs and outputs are written from ../action.yml by: go test . -run Container -update
`
	containerRuns = `runs:
  using: docker
  image: ../Dockerfile
  args: [action]
`
)

// valueOf is the line by which a composite wires an output; a container's outputs have none.
var valueOf = regexp.MustCompile(`\n    value: .*`)

func TestContainerActionHasTheInputsAndOutputsOfTheComposite(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("action.yml")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(data), "\ninputs:\n")
	require.True(t, ok)
	shared, _, ok := strings.Cut(rest, "\nruns:\n")
	require.True(t, ok)
	want := containerHead + "inputs:\n" + valueOf.ReplaceAllString(shared, "") + "\n" + containerRuns
	if *update {
		require.NoError(t, os.WriteFile("container/action.yml", []byte(want), 0o644))
		return
	}
	got, err := os.ReadFile("container/action.yml")
	require.NoError(t, err)
	require.Equal(t, want, string(got), "go test . -run Container -update writes it anew")
}

func TestDockerfileAsksNoRegistry(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		require.NotRegexp(t, `(?i)^#\s*syntax\s*=`, line, "BuildKit would fetch a frontend")
		if from, ok := strings.CutPrefix(line, "FROM "); ok {
			require.Equal(t, "scratch", strings.TrimSpace(from))
		}
	}
}
