package containerd_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/command/commandtest"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/target"
)

// newNerdctl is a daemon that has nerdctl in front of it and no ctr.
func newNerdctl(t *testing.T) *daemon {
	t.Helper()
	d := newDaemon(t, false)
	for _, program := range []string{"ctr", "k3s", "/var/lib/rancher/rke2/bin/ctr"} {
		d.on(program, "plugins ls --detailed", absent)
		d.on(program, "images import --help", absent)
		d.runner.On(program+" ctr", absent)
	}
	d.on("nerdctl", "info --format {{json .}}", commandtest.Says(`{"ID":"x","OSType":"linux","Architecture":"aarch64"}`+"\n"))
	d.on("nerdctl", "images --no-trunc --names --format {{json .}}", d.images)
	d.on("nerdctl", "load --quiet", func(_ []string, stdin []byte) (command.Output, error) {
		return d.importImage([]string{"-"}, stdin)
	})
	d.on("nerdctl", "tag", d.tag)
	d.on("nerdctl", "rmi", d.remove)
	return d
}

func (d *daemon) images([]string, []byte) (command.Output, error) {
	var rows strings.Builder
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		size := "0.0 B"
		if d.unpacked[d.names[name]] {
			size = "80.0 KiB"
		}
		fmt.Fprintf(&rows, `{"Name":%q,"Digest":%q,"Size":%q,"Platform":"linux/arm64"}`+"\n", name, d.names[name], size)
	}
	return command.Output{Stdout: rows.String()}, nil
}

func TestNerdctl(t *testing.T) {
	t.Parallel()
	d := newNerdctl(t)
	c := d.target()
	p, err := c.Platform(t.Context())
	require.NoError(t, err)
	require.Equal(t, platform.Platform{OS: "linux", Architecture: "arm64"}, p)

	img := imageFor(t, p)
	d.label("new", img)
	d.imported = func(_, target string) error {
		d.unpacked[target] = false
		return nil
	}
	_, err = c.Load(t.Context(), img)
	require.ErrorContains(t, err, "is not unpacked")
	require.Empty(t, d.state())

	d.imported = nil
	result, err := c.Load(t.Context(), img)
	require.NoError(t, err)
	require.Equal(t, target.Loaded, result.Outcome)
	require.Equal(t, map[string]string{tag: "new.root", byRoot: "new.root", byManifest: "new.root"}, d.state())

	result, err = c.Load(t.Context(), img)
	require.NoError(t, err)
	require.Equal(t, target.Present, result.Outcome)
}
