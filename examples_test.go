package main_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// maxOurs is how many lines of an example may be ours.
const maxOurs = 12

// exampleFor is what each example is for, in the words of its table, in that order.
var exampleFor = []struct{ file, purpose string }{
	{"basic.yml", "prime, lanes and the gate: the place to start"},
	{"job-per-image.yml", "one prime job for each image, for large sets"},
	{"official-cache.yml", "GitHub's own cache steps, and nothing of ours that talks to the service"},
	{"kind.yml", "kind clusters, lanes with images of their own, and an audit of the rendered chart"},
	{"forks.yml", "pull requests from forks, which can't write to the cache: an artifact of the run"},
	{"warm-up.yml", "the default branch primes for everybody, also on a schedule"},
	{"self-hosted.yml", "runners of one's own with a shared folder"},
	{"two-architectures.yml", "lanes on amd64 and arm64"},
	{"reusable.yml", "the prime job as a workflow that others call"},
	{"reusable-caller.yml", "a workflow that calls it"},
	{"compose.yml", "a Compose file as the pin list"},
	{"testcontainers.yml", "testcontainers, and ryuk with it"},
	{"buildx.yml", "Dockerfiles: base images, and the builder of buildx"},
	{"before-the-first-step.yml", "what can't be helped, `services:`, `container:` and Docker actions, and what to do instead"},
}

func TestExamplesTable(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("\n| Example | For | Ours |\n|---|---|---|\n")
	var listed []string
	for _, e := range exampleFor {
		path := filepath.Join("examples", e.file)
		listed = append(listed, path)
		ours := len(oursIn(t, path))
		require.LessOrEqual(t, ours, maxOurs, path)
		require.Positive(t, ours, path)
		fmt.Fprintf(&table, "| [%s](%s) | %s | %d |\n", e.file, e.file, e.purpose, ours)
	}
	files, err := filepath.Glob("examples/*.yml")
	require.NoError(t, err)
	require.ElementsMatch(t, files, listed)
	rewrite(t, "examples/README.md", "<!-- The table is written by: go test . -run Examples -update -->\n", "\n<!-- end of the table -->", table.String())
}

// rewrite holds the part of a file between two marks to what it should be, or writes it with -update.
func rewrite(t *testing.T, path, from, to, want string) {
	t.Helper()
	data := read(t, path)
	before, rest, ok := strings.Cut(data, from)
	require.True(t, ok, "%s has no %q", path, from)
	_, after, ok := strings.Cut(rest, to)
	require.True(t, ok, "%s has no %q", path, to)
	whole := before + from + want + to + after
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(whole), 0o644))
		return
	}
	require.Equal(t, whole, data, "go test . -run Examples -update writes it anew")
}

// speaksOfOurs are lines that are there because of ours: they name an output, or the folder that holds entries.
var speaksOfOurs = regexp.MustCompile(`\.outputs\.|\.pullonce\b`)

// oursIn are the lines of an example that are ours.
func oursIn(t *testing.T, path string) []string {
	t.Helper()
	var ours []string
	for _, block := range blocks(read(t, path)) {
		whole := strings.Contains(block[0], "- uses: ") && slices.ContainsFunc(block, func(line string) bool {
			return strings.Contains(line, "pullonce/pullonce@") || speaksOfOurs.MatchString(line)
		})
		for _, line := range block {
			if whole || speaksOfOurs.MatchString(line) {
				ours = append(ours, line)
			}
		}
	}
	return ours
}

// blocks are the steps of a workflow, from their dash on, and each other line by itself. Comments and blank lines are left
// out.
func blocks(workflow string) [][]string {
	var all [][]string
	in := 0 // the indentation of the step's keys; 0 outside of steps
	for line := range strings.Lines(workflow) {
		line = strings.TrimRight(line, "\n")
		text := strings.TrimLeft(line, " ")
		indent := len(line) - len(text)
		switch {
		case text == "" || strings.HasPrefix(text, "#"):
			continue
		case in > 0 && indent >= in:
			all[len(all)-1] = append(all[len(all)-1], line)
			continue
		}
		in = 0
		if strings.HasPrefix(text, "- ") {
			in = indent + 2
		}
		all = append(all, []string{line})
	}
	return all
}

func TestBlocksOfAWorkflow(t *testing.T) {
	t.Parallel()
	require.Equal(t, [][]string{
		{"jobs:"}, {"  a:"}, {"    steps:"},
		{"      - uses: x@v1", "        with: {a: b}"}, {"      - run: y", "        env:", "          A: b"},
		{"  b:"},
	}, blocks("jobs:\n  a:\n    steps:\n      - uses: x@v1\n        # why\n        with: {a: b}\n      - run: y\n        env:\n          A: b\n\n  b:\n"))
}

func TestExamplesUseTheInputsOfTheAction(t *testing.T) {
	t.Parallel()
	inputs := readAction(t, "action.yml").Inputs
	for _, e := range exampleFor {
		var w workflow
		require.NoError(t, yaml.Unmarshal([]byte(read(t, filepath.Join("examples", e.file))), &w), e.file)
		require.Equal(t, map[string]string{"contents": "read"}, w.Permissions, e.file)
		for _, job := range w.Jobs {
			for _, step := range job.Steps {
				if step.Uses != "pullonce/pullonce@v1" {
					continue
				}
				for name := range step.With {
					require.Contains(t, inputs, name, e.file)
					require.True(t, name == "mode" || inputs[name].mentions(step.With["mode"]),
						"%s: mode %s does not read %s", e.file, step.With["mode"], name)
				}
			}
		}
	}
}

// A gate that does not need a job does not see that it failed, and one that does not always run is skipped with the rest.
func TestExamplesWithLanesHaveAGate(t *testing.T) {
	t.Parallel()
	var gates int
	for _, e := range exampleFor {
		var w struct {
			Jobs map[string]struct {
				Needs any
				If    string
				Steps []struct{ Run string }
			}
		}
		require.NoError(t, yaml.Unmarshal([]byte(read(t, filepath.Join("examples", e.file))), &w), e.file)
		if len(w.Jobs) == 1 {
			continue // nothing is skipped with it
		}
		gate, others := w.Jobs["gate"], slices.Sorted(maps.Keys(w.Jobs))
		others = slices.DeleteFunc(others, func(id string) bool { return id == "gate" })
		require.ElementsMatch(t, others, gate.Needs, e.file)
		require.Equal(t, "always()", gate.If, e.file)
		require.Len(t, gate.Steps, 1, e.file)
		for _, id := range others {
			require.True(t, gate.Steps[0].Run == "" || strings.Contains(gate.Steps[0].Run, "needs."+id+".result == 'success'"), "%s: %s", e.file, id)
		}
		gates++
	}
	require.Positive(t, gates)
}

func TestExamplesPinTheActionsOfOthers(t *testing.T) {
	t.Parallel()
	var uses int
	for _, e := range exampleFor {
		for line := range strings.Lines(read(t, filepath.Join("examples", e.file))) {
			_, action, ok := strings.Cut(strings.TrimSpace(line), "uses: ")
			if !ok || strings.HasPrefix(strings.TrimSpace(line), "#") || action == "pullonce/pullonce@v1" || strings.HasPrefix(action, "acme/workflows/") {
				continue
			}
			uses++
			require.Regexp(t, pinned, action, e.file)
		}
	}
	require.Positive(t, uses)
}
