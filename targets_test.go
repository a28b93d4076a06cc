package main_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The marks around the README's table of targets, which testdata/targets.txt is written as. The end-to-end suite holds
// that file to the real daemons, cell by cell.
const (
	targetsBegin = "<!-- The table of targets is written by: go test . -run Readme -update -->\n"
	targetsEnd   = "\n<!-- end of the table of targets -->"
)

// targetRows says what people call the rows of testdata/targets.txt, in its order.
var targetRows = [][2]string{
	{"docker-classic", "`docker`, classic image store (before Docker 29, or where it is set)"},
	{"docker-containerd", "`docker`, containerd image store"},
	{"containerd", "`containerd`, by `ctr run`"},
	{"containerd-kubelet", "`containerd`, by the kubelet"},
	{"kind-kubelet", "`kind`, by the kubelet"},
	{"podman", "`podman`"},
	{"podman-socket", "`podman`, by its socket"},
}

func TestReadmeHasTheTargets(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(readme), targetsBegin)
	table, after, closed := strings.Cut(rest, targetsEnd)
	require.True(t, ok && closed, "README.md lacks the markers of the table of targets")
	want := targetTable(t)
	if *update {
		require.NoError(t, os.WriteFile("README.md", []byte(before+targetsBegin+want+targetsEnd+after), 0o644))
		return
	}
	require.Equal(t, want, table, "go test . -run Readme -update writes it anew")
}

// targetTable is the file as a table for people.
func targetTable(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("testdata/targets.txt")
	require.NoError(t, err)
	var b strings.Builder
	b.WriteString("\n| Loaded into | `repo:tag` | `repo@manifest` | `repo:tag@manifest` | `repo@root` | `repo:tag@root` |\n|---|---|---|---|---|---|\n")
	rows := 0
	for line := range strings.Lines(string(data)) {
		cells := strings.Fields(line)
		if len(cells) == 0 || cells[0] == "#" {
			continue
		}
		require.Less(t, rows, len(targetRows), line)
		require.Equal(t, targetRows[rows][0], cells[0], "the rows of testdata/targets.txt and of this test")
		for _, cell := range cells[1:] {
			require.Contains(t, []string{"yes", "no"}, cell, line)
		}
		fmt.Fprintf(&b, "| %s | %s |\n", targetRows[rows][1], strings.Join(cells[1:], " | "))
		rows++
	}
	require.Len(t, targetRows, rows)
	return b.String()
}
