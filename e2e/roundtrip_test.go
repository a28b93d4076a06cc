//go:build linux

package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/report"
)

// Prime pulls each image once and never again; a lane loads all of them and asks the registry for nothing; containers
// run from the exact references; and the daemon can't tell the images from pulled ones.
func TestPrimeOnceThenLoad(t *testing.T) {
	forEachEngine(t, func(t *testing.T, d *daemon) {
		f := needImages(t)
		r := startRegistry(t, f.storage)
		refs := f.references(r, d)
		p, list := pullonce(t, d), pins(t, newStore(t), refs...)

		primed := p.run(t, with([]string{"prime"}, list...)...)
		require.Equal(t, 0, primed.code)
		require.Equal(t, []report.Source{report.Registry, report.Registry, report.Registry}, primed.sources())
		requests := r.requests(t)
		require.NotEmpty(t, requests)

		again := p.run(t, with([]string{"prime"}, list...)...)
		require.Equal(t, 0, again.code)
		require.Equal(t, []report.Source{report.Cache, report.Cache, report.Cache}, again.sources())
		require.Equal(t, requests, r.requests(t), "a warm prime asked the registry")

		require.Empty(t, d.names(t))
		loaded := p.run(t, with([]string{"load"}, list...)...)
		require.Equal(t, 0, loaded.code)
		require.Equal(t, []report.Source{report.Cache, report.Cache, report.Cache}, loaded.sources())
		require.Empty(t, loaded.report.Problems)
		require.Equal(t, report.Success, loaded.report.Result)
		for _, ref := range refs {
			d.run(t, ref, busybox, "true")
		}
		require.Equal(t, requests, r.requests(t), "a lane or a container asked the registry")

		requirePulledIDs(t, d, refs)
	})
}

// references are the exact references of the three images, as a pin list and a container name them. Where the engine
// resolves digests after a load, one has both tag and digest.
func (f fixtures) references(r *registry, d *daemon) []string {
	refs := []string{r.addr + "/" + f.small.repoTag, r.addr + "/" + f.medium.repoTag, r.addr + "/" + f.large.repoTag}
	if d.containerdStore {
		refs[1] += "@" + f.medium.root.String()
	}
	return refs
}

// requirePulledIDs compares the ids of loaded images with those that docker pull gives to an empty daemon.
func requirePulledIDs(t *testing.T, d *daemon, refs []string) {
	t.Helper()
	loaded := make(map[string]string)
	for _, ref := range refs {
		loaded[ref] = d.id(t, ref)
	}
	d.empty(t)
	pulled := make(map[string]string)
	for _, ref := range refs {
		d.docker(t, "pull", "--quiet", ref)
		pulled[ref] = d.id(t, ref)
	}
	require.Equal(t, pulled, loaded)
}

// A second lane on the same daemon finds everything there: no layer is read, and nothing is sent.
func TestLoadWhatIsThere(t *testing.T) {
	forEachEngine(t, func(t *testing.T, d *daemon) {
		f := needImages(t)
		r := startRegistry(t, f.storage)
		p, list := pullonce(t, d), pins(t, newStore(t), r.addr+"/"+f.small.repoTag, r.addr+"/"+f.medium.repoTag)
		require.Equal(t, 0, p.run(t, with([]string{"prime"}, list...)...).code)
		require.Equal(t, 0, p.run(t, with([]string{"load"}, list...)...).code)

		again := p.run(t, with([]string{"load"}, list...)...)
		require.Equal(t, 0, again.code)
		require.Equal(t, []report.Source{report.Present, report.Present}, again.sources())
		require.Empty(t, again.report.Problems)
	})
}
