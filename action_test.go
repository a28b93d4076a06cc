package main_test

import (
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// action is what we hold to in an action's metadata.
type action struct {
	Inputs  map[string]actionInput
	Outputs map[string]struct{ Description, Value string }
	Runs    struct {
		Using string
		Steps []step
	}
}

type actionInput struct {
	Description string
	Required    bool
	Default     string
}

func (i actionInput) mentions(text string) bool { return strings.Contains(i.Description, text) }

// step is a step of a composite action.
type step struct {
	ID, If, Uses, Shell, Run string
	With, Env                map[string]string
}

func readAction(t *testing.T, path string) action {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var a action
	require.NoError(t, yaml.Unmarshal(data, &a))
	return a
}

func TestActionDescribesEveryInputWithItsDefault(t *testing.T) {
	t.Parallel()
	for name, input := range readAction(t, "action.yml").Inputs {
		if input.Required {
			require.Contains(t, input.Description, "Required.", name)
			continue
		}
		_, told, ok := strings.Cut(input.Description, "Default: ")
		require.True(t, ok || name == "jobs", "input %s does not tell its default", name)
		if input.Default != "" {
			require.Equal(t, "`"+input.Default+"`.", told, name)
		}
	}
}

func TestActionHandsInputsOnAsEnvironment(t *testing.T) {
	t.Parallel()
	a := readAction(t, "action.yml")
	main := a.Runs.Steps[len(a.Runs.Steps)-1]
	want := map[string]string{}
	for name := range a.Inputs {
		want["PULLONCE_INPUT_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))] = "${{ inputs." + name + " }}"
	}
	for name, value := range main.Env {
		if strings.HasPrefix(name, "ACTIONS_") {
			want[name] = "${{ steps.runtime.outputs." + name + " }}"
			require.Contains(t, a.Runs.Steps[0].With["script"], "'"+name+"'", "the first step does not hand over %s", name)
		}
		require.NotContains(t, value, "\n")
	}
	require.Equal(t, want, main.Env)
}

func TestActionRunsNothingThatAnInputCouldChange(t *testing.T) {
	t.Parallel()
	for _, s := range readAction(t, "action.yml").Runs.Steps {
		require.NotContains(t, s.Run, "${{", s.ID)
		require.NotContains(t, s.With["script"], "${{", s.ID)
		if s.Uses != "" {
			require.Regexp(t, `^[\w-]+/[\w-]+@[0-9a-f]{40}$`, s.Uses)
		}
	}
}

func TestActionPassesOnItsOutputs(t *testing.T) {
	t.Parallel()
	for name, output := range readAction(t, "action.yml").Outputs {
		require.NotEmpty(t, output.Description, name)
		require.Contains(t, output.Value, "${{ steps.pullonce.outputs."+name+" ")
	}
}

func TestStandInTakesTheInputsOfTheAction(t *testing.T) {
	t.Parallel()
	a := readAction(t, "testdata/github-script/action.yml")
	for _, s := range readAction(t, "action.yml").Runs.Steps {
		for name := range s.With {
			require.Contains(t, a.Inputs, name)
		}
	}
	require.Equal(t, "node20", a.Runs.Using)
}
