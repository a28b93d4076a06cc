//go:build linux

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/target/docker"
)

// tablePath is the table of what targets answer to.
const tablePath = "../testdata/targets.txt"

// forms are the references of its columns.
func forms(img image.Image) []string {
	ref, root, manifest := img.Reference(), img.Root().Digest, img.Manifest().Digest
	return []string{
		ref.Tagged(), ref.WithDigest(manifest), ref.Tagged() + "@" + manifest.String(), ref.WithDigest(root), ref.Tagged() + "@" + root.String(),
	}
}

// tablePlaces are the places of each row.
func tablePlaces() map[string][]func(t *testing.T) place {
	all := map[string][]func(t *testing.T) place{
		"podman": {func(t *testing.T) place { return startPodman(t) }},
		"podman-socket": {func(t *testing.T) place {
			p := startPodman(t)
			p.listen(t)
			return p
		}},
	}
	for _, e := range engines() {
		add := func(row string, start func(t *testing.T) place) { all[row] = append(all[row], start) }
		for _, way := range []docker.Way{docker.Pull, docker.Archive} {
			add("docker-"+e.name, func(t *testing.T) place { return dockerPlace{e.start(t), way} })
		}
		add("containerd", func(t *testing.T) place { return e.startContainerd(t) })
		for name, start := range kubelets() {
			add(name+"-kubelet", func(t *testing.T) place { return start(t, e) })
		}
	}
	return all
}

// Every cell of the table is true, the noes too: a container can be made of exactly these references, with pulls off.
// What the daemon can't answer to, and the pin asks for, is said.
func TestTargetsTable(t *testing.T) {
	gate(t)
	tried, tryable := 0, tablePlaces()
	for row, cells := range tableRows(t) {
		for i, start := range tryable[row] {
			t.Run(fmt.Sprintf("%s/%d", row, i+1), func(t *testing.T) { tryRow(t, start(t), cells) })
			tried++
		}
		delete(tryable, row)
	}
	require.Empty(t, tryable, "places without a row")
	require.Positive(t, tried)
}

// tableRows are the cells of the table, by row.
func tableRows(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(tablePath)
	require.NoError(t, err)
	rows := map[string][]string{}
	for line := range strings.Lines(string(data)) {
		cells := strings.Fields(line)
		if len(cells) == 0 || cells[0] == "#" {
			continue
		}
		require.Len(t, cells, 6)
		rows[cells[0]] = cells[1:]
	}
	return rows
}

func tryRow(t *testing.T, p place, cells []string) {
	by := indexed(t, "e2e.test/table:1", "table")
	img := indexed(t, by.Reference().Tagged()+"@"+by.Root().Digest.String(), "table")
	result, err := p.target(t).Load(t.Context(), img)
	require.NoError(t, err)
	if cells[len(cells)-1] == "no" && cells[len(cells)-2] == "no" {
		require.Equal(t, []string{img.Reference().String()}, result.Unresolvable)
	} else {
		require.Empty(t, result.Unresolvable)
	}
	for i, ref := range forms(img) {
		err := p.create(t, ref)
		assert.Equal(t, cells[i] == "yes", err == nil, "%s: %v", ref, err)
	}
}
