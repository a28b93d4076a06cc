package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// workflow is what we hold to in a workflow of this repository.
type workflow struct {
	Permissions map[string]string
	Concurrency map[string]any
	Jobs        map[string]struct {
		Permissions map[string]string
		Timeout     int `yaml:"timeout-minutes"`
		Steps       []step
	}
}

func workflows(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(".github/workflows/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// pinned is a step's action by commit, with the version for people and for updates, or one of this checkout.
var pinned = regexp.MustCompile(`^(\S+@[0-9a-f]{40} # v\d+\.\d+\.\d+|\./\S*)$`)

func TestWorkflowsPinEveryAction(t *testing.T) {
	t.Parallel()
	for _, file := range workflows(t) {
		for line := range strings.Lines(read(t, file)) {
			if _, uses, ok := strings.Cut(line, "uses: "); ok {
				require.Regexp(t, pinned, strings.TrimSpace(uses), file)
			}
		}
	}
}

func TestWorkflowsGrantJobByJob(t *testing.T) {
	t.Parallel()
	for _, file := range workflows(t) {
		var w workflow
		require.NoError(t, yaml.Unmarshal([]byte(read(t, file)), &w))
		require.NotNil(t, w.Permissions, "%s: permissions: {} is missing", file)
		require.Empty(t, w.Permissions, "%s: permissions are granted to all jobs", file)
		require.NotEmpty(t, w.Concurrency, file)
		require.NotEmpty(t, w.Jobs, file)
		for id, job := range w.Jobs {
			require.NotEmpty(t, job.Permissions, "%s: job %s", file, id)
			require.Positive(t, job.Timeout, "%s: job %s", file, id)
		}
	}
}

// TestOwnWorkflowUsesTheActionAsItIs holds the steps that use this action to inputs that it has.
func TestOwnWorkflowUsesTheActionAsItIs(t *testing.T) {
	t.Parallel()
	inputs, modes := readAction(t, "action.yml").Inputs, map[string]bool{}
	for _, file := range workflows(t) {
		var w workflow
		require.NoError(t, yaml.Unmarshal([]byte(read(t, file)), &w))
		for id, job := range w.Jobs {
			for _, s := range job.Steps {
				if s.Uses != "./" {
					continue
				}
				modes[s.With["mode"]] = true
				for name, value := range s.With {
					require.Contains(t, inputs, name, "%s: job %s", file, id)
					if name == "pins" {
						_, err := os.Stat(value)
						require.NoError(t, err)
					}
				}
			}
		}
	}
	for _, mode := range []string{"prime", "load", "gate"} {
		require.True(t, modes[mode], "no workflow uses mode %s", mode)
	}
}
