package main_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cli"
)

var update = flag.Bool("update", false, "write the mode table of README.md anew")

func actionModes(t *testing.T) []cli.Mode {
	t.Helper()
	modes, err := cli.Modes()
	require.NoError(t, err)
	require.NotEmpty(t, modes)
	return modes
}

func TestActionAndProgramAgree(t *testing.T) {
	t.Parallel()
	require.Empty(t, disagreements(readAction(t, "action.yml"), actionModes(t)))
}

func TestReadmeHasTheModes(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("README.md")
	require.NoError(t, err)
	modes := actionModes(t)
	before, table, after, ok := cutTable(string(data))
	require.True(t, ok, "README.md lacks the markers of the mode table")
	if *update {
		require.NoError(t, os.WriteFile("README.md", []byte(before+modeTable(modes)+after), 0o644))
		return
	}
	require.Equal(t, modeTable(modes), table, "go test . -run Readme -update writes it anew")
}

// disagreements are the places where an action's metadata and the program's modes differ, seen from either side.
func disagreements(a action, modes []cli.Mode) []string {
	d := &differences{}
	inputs, outputs := map[string][]string{}, map[string][]string{}
	defaults := map[string]map[string]string{} // by input and mode
	for _, mode := range modes {
		d.require(a.Inputs["mode"].mentions("`"+mode.Name+"`"), "the input mode does not describe %s", mode.Name)
		for _, input := range mode.Inputs {
			inputs[input.Name] = append(inputs[input.Name], mode.Name)
			if defaults[input.Name] == nil {
				defaults[input.Name] = map[string]string{}
			}
			defaults[input.Name][mode.Name] = input.Default
		}
		for _, output := range mode.Outputs {
			outputs[output] = append(outputs[output], mode.Name)
		}
	}
	for name, input := range a.Inputs {
		if name != "mode" {
			d.described("input", name, input.Description, inputs[name])
			d.defaulted(name, input, inputs[name], defaults[name])
		}
	}
	for name, output := range a.Outputs {
		d.described("output", name, output.Description, outputs[name])
	}
	for name := range inputs {
		_, ok := a.Inputs[name]
		d.require(ok, "the flag --%s is no input", name)
	}
	for name := range outputs {
		_, ok := a.Outputs[name]
		d.require(ok, "what is written as %s is no output", name)
	}
	slices.Sort(d.found)
	return d.found
}

type differences struct{ found []string }

func (d *differences) require(ok bool, format string, args ...any) {
	if !ok {
		d.found = append(d.found, fmt.Sprintf(format, args...))
	}
}

// described holds a description to begin with the modes that have the input or output.
func (d *differences) described(kind, name, description string, modes []string) {
	if len(modes) == 0 {
		d.require(false, "no mode has the %s %s", kind, name)
		return
	}
	want := strings.Join(modes, ", ") + ": "
	d.require(strings.HasPrefix(description, want), "the description of the %s %s does not begin with %q", kind, name, want)
}

// defaulted holds an input's default to that of its flags. Where modes differ, the input has none, so that each mode's
// own holds, and the description tells them all.
func (d *differences) defaulted(name string, input actionInput, modes []string, defaults map[string]string) {
	distinct := slices.Compact(slices.Sorted(maps.Values(defaults)))
	if len(distinct) == 1 {
		d.require(input.Default == distinct[0], "the input %s has the default %q, its flag %q", name, input.Default, distinct[0])
		return
	}
	d.require(input.Default == "", "the input %s has the default %q, its flags %q", name, input.Default, distinct)
	told := make([]string, len(modes))
	for i, mode := range modes {
		told[i] = fmt.Sprintf("`%s` in %s", defaults[mode], mode)
	}
	want := "Default: " + strings.Join(told, ", ") + "."
	d.require(input.mentions(want), "the description of the input %s does not say %q", name, want)
}

// TestDisagreementsAreSeen changes one thing at a time on either side.
func TestDisagreementsAreSeen(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(a *action, prime *cli.Mode){
		"no mode has the input bogus": func(a *action, _ *cli.Mode) {
			a.Inputs["bogus"] = actionInput{Description: "prime: more. Default: none."}
		},
		"no mode has the input verify":                      func(_ *action, m *cli.Mode) { m.Inputs = without(m.Inputs, "verify") },
		"the flag --bogus is no input":                      func(_ *action, m *cli.Mode) { m.Inputs = append(m.Inputs, cli.Input{Name: "bogus"}) },
		"the flag --verify is no input":                     func(a *action, _ *cli.Mode) { delete(a.Inputs, "verify") },
		`the input verify has the default "full", its flag`: func(a *action, _ *cli.Mode) { a.Inputs["verify"] = with(a.Inputs["verify"], "full") },
		`the input max-age has the default "7d", its flag ""`: func(_ *action, m *cli.Mode) {
			m.Inputs = append(without(m.Inputs, "max-age"), cli.Input{Name: "max-age"})
		},
		`the input timeout has the default "1h", its flags`: func(a *action, _ *cli.Mode) { a.Inputs["timeout"] = with(a.Inputs["timeout"], "1h") },
		"the description of the input timeout does not say": func(_ *action, m *cli.Mode) {
			m.Inputs = append(without(m.Inputs, "timeout"), cli.Input{Name: "timeout", Default: "11m"})
		},
		"the description of the input store does not begin with": func(_ *action, m *cli.Mode) { m.Inputs = without(m.Inputs, "store") },
		"the input mode does not describe rinse":                 func(_ *action, m *cli.Mode) { m.Name = "rinse" },
		"what is written as bogus is no output":                  func(_ *action, m *cli.Mode) { m.Outputs = append(m.Outputs, "bogus") },
		"what is written as pulled is no output":                 func(a *action, _ *cli.Mode) { delete(a.Outputs, "pulled") },
		"no mode has the output pulled": func(_ *action, m *cli.Mode) {
			m.Outputs = slices.DeleteFunc(m.Outputs, func(name string) bool { return name == "pulled" })
		},
		"the description of the output count does not begin with": func(_ *action, m *cli.Mode) {
			m.Outputs = slices.DeleteFunc(m.Outputs, func(name string) bool { return name == "count" })
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			a, modes := readAction(t, "action.yml"), actionModes(t)
			prime := slices.IndexFunc(modes, func(m cli.Mode) bool { return m.Name == "prime" })
			change(&a, &modes[prime])
			require.Contains(t, strings.Join(disagreements(a, modes), "\n"), want)
		})
	}
}

func without(inputs []cli.Input, name string) []cli.Input {
	return slices.DeleteFunc(slices.Clone(inputs), func(input cli.Input) bool { return input.Name == name })
}

func with(input actionInput, value string) actionInput {
	input.Default = value
	return input
}

// The mode table stands between these lines.
const (
	tableBegin = "<!-- The mode table is written by: go test . -run Readme -update -->\n"
	tableEnd   = "<!-- end of the mode table -->\n"
)

// cutTable takes the mode table out of a document.
func cutTable(document string) (before, table, after string, ok bool) {
	before, rest, begun := strings.Cut(document, tableBegin)
	table, after, ended := strings.Cut(rest, tableEnd)
	return before + tableBegin, table, tableEnd + after, begun && ended
}

// modeTable is the table of the modes for people.
func modeTable(modes []cli.Mode) string {
	var b strings.Builder
	b.WriteString("\n| Mode | Inputs | Outputs | Fails when |\n|---|---|---|---|\n")
	for _, mode := range modes {
		var inputs []string
		for _, input := range mode.Inputs {
			inputs = append(inputs, input.Name)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", mode.Name, code(inputs), code(mode.Outputs), mode.Fails)
	}
	b.WriteString("\n")
	return b.String()
}

func code(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }
