//go:build linux

package e2e

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/kind"
)

// forEachCluster runs a test on a new cluster of two nodes, with different snapshotters, in each engine.
func forEachCluster(t *testing.T, test func(t *testing.T, p *kindPlace)) {
	t.Helper()
	forEachEngine(t, func(t *testing.T, d *daemon) { test(t, startKind(t, d, "native", "overlayfs")) })
}

// One read serves all nodes, and only those that lack the image get it.
func TestNodesReadOnce(t *testing.T) {
	forEachCluster(t, func(t *testing.T, p *kindPlace) {
		img, opened := counted(indexed(t, "e2e.test/nodes:1", "nodes"))
		layers := int64(len(img.Layers()))
		_, err := p.kind(t, kind.Options{}).Load(t.Context(), img)
		require.NoError(t, err)
		require.NoError(t, p.create(t, "e2e.test/nodes:1"))
		require.Equal(t, layers, opened.Load())

		_, err = p.in(t, p.nodes[1], append([]string{"images", "rm", "--sync"}, p.namesIn(t, p.nodes[1])...)...)
		require.NoError(t, err)
		result, err := p.kind(t, kind.Options{}).Load(t.Context(), img)
		require.NoError(t, err)
		require.Equal(t, target.Loaded, result.Outcome)
		require.Equal(t, 2*layers, opened.Load())
		sent, err := img.ByDigest()
		require.NoError(t, err)
		require.Equal(t, image.EncodedSize(sent), result.Sent, "to one node")
		require.NoError(t, p.create(t, "e2e.test/nodes:1"))
	})
}

// An image goes to the nodes that its pin names, by role or by name.
func TestNodesOfAPin(t *testing.T) {
	gate(t)
	p := startKind(t, engine{name: "classic"}.start(t), "native", "overlayfs")
	k := p.kind(t, kind.Options{Cluster: "kind"})
	for part, node := range map[string]string{"control-plane": p.nodes[0], "kind-worker1": p.nodes[1]} {
		_, err := k.Only([]string{part}).Load(t.Context(), plain(t, "e2e.test/"+part+":1", part))
		require.NoError(t, err)
		for _, other := range p.nodes {
			require.Equal(t, other == node, strings.Contains(strings.Join(p.namesIn(t, other), " "), "e2e.test/"+part+":1"))
		}
	}
	_, err := k.Only([]string{"master"}).Load(t.Context(), plain(t, "e2e.test/nowhere:1", "nowhere"))
	require.EqualError(t, err, "nodes=master: no node has that name or role: there are kind-control-plane (control-plane), kind-worker1 (worker)")
}

// A node that is stopped, dies or stalls fails alone, in one line that names it, while the image is on its way in parts.
func TestNodeFailsAlone(t *testing.T) {
	for name, test := range map[string]struct {
		before, during []string // what docker does to the node
		want           string
	}{
		"stopped": {before: []string{"stop", "--time", "0"}, want: "its container is exited: docker start kind-worker1"},
		"killed":  {during: []string{"kill"}, want: "node kind-worker1: "}, // what notices first is not always the same
		"paused":  {during: []string{"pause"}, want: "it took no data for 3s: it hangs, or its disk does"},
	} {
		t.Run(name, func(t *testing.T) {
			forEachCluster(t, func(t *testing.T, p *kindPlace) {
				bad := p.nodes[1]
				if test.before != nil {
					p.docker(t, append(test.before, bad)...)
				}
				var once sync.Once
				img := thick(t, 2, "alone")[0].Via(func(s image.Source) image.Source {
					return sourceFunc(func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
						rc, err := s.Blob(ctx, d)
						return struct {
							io.Reader
							io.Closer
						}{&trigger{r: rc, after: 8 << 20, do: func() {
							once.Do(func() {
								if test.during != nil {
									p.docker(t, append(test.during, bad)...)
								}
							})
						}}, rc}, err
					})
				})
				_, err := p.kind(t, kind.Options{Stall: 3 * time.Second}).Load(t.Context(), img)
				require.ErrorContains(t, err, test.want)
				require.ErrorContains(t, err, "node kind-worker1: ")
				require.ErrorContains(t, err, "; the other node has the image")
				require.NotContains(t, err.Error(), "\n")
				names := p.namesIn(t, p.nodes[0])
				require.Contains(t, names, "e2e.test/thick-alone:1")
				require.NotContains(t, strings.Join(names, " "), "pullonce.invalid")
			})
		})
	}
}

// large is an image with a layer of some 16 MiB.
func large(t *testing.T, ref string) image.Image {
	t.Helper()
	layer, err := writeLayer(filepath.Join(tempDir(t), "large"), file{name: "large", mode: 0o644, size: 48 << 20, data: newMixed(1)})
	require.NoError(t, err)
	img, err := assemble(ociTypes, host, base(t), layer)
	require.NoError(t, err)
	return loadable(t, ref, img, img)
}

// trigger does something once so many bytes were read.
type trigger struct {
	r     io.Reader
	after int
	do    func()
}

// Read implements io.Reader.
func (r *trigger) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if r.after -= n; r.after <= 0 {
		r.do()
	}
	return n, err
}

// Several targets in one run of the program: each has the image, under the reference that its users have, and the
// registry was asked by prime alone.
func TestLoadIntoSeveral(t *testing.T) {
	forEachEngine(t, func(t *testing.T, d *daemon) {
		f := needImages(t)
		r := startRegistry(t, f.storage)
		list := pins(t, newStore(t), r.addr+"/"+f.small.repoTag, r.addr+"/"+f.medium.repoTag)
		p := pullonce(t, d)
		require.Equal(t, 0, p.run(t, with([]string{"prime"}, list...)...).code)
		require.NoError(t, r.stop())

		cluster, host, pod := startKind(t, d, "native", "overlayfs"), d.startContainerd(t), startPodman(t)
		load := func() outcome {
			args := with([]string{"load", "--into", "docker", "--into", "kind", "--into", "containerd", "--into", "podman", "--json"}, list...)
			cmd := p.command(t, args...)
			cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(host.ctr)+":"+os.Getenv("PATH"), "CONTAINERD_ADDRESS="+host.socket, "CONTAINERS_STORAGE_CONF="+pod.config)
			return finish(t, cmd, nil)
		}
		loaded := load()
		require.Equal(t, 0, loaded.code)
		require.Empty(t, loaded.report.Problems)
		require.Equal(t, report.Success, loaded.report.Result)
		require.Len(t, loaded.report.Images, 8)
		for _, place := range []place{dockerPlace{d: d}, cluster, host, pod} {
			for _, image := range []fixture{f.small, f.medium} {
				require.NoError(t, place.create(t, r.addr+"/"+image.repoTag))
			}
		}
		for _, row := range load().report.Images {
			require.Equal(t, report.Present, row.Source, row)
		}
	})
}
