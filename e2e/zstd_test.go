//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cachetest"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/recompress"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/target"
)

// zstdEngines are the engines, and a current one with the classic store: Debian's is too old for layers in zstd.
func zstdEngines() []engine {
	all := engines()
	if bin := os.Getenv(envEngine); bin != "" {
		all = append(all, engine{
			name: "current-classic", bin: bin,
			flags: []string{"--feature", "containerd-snapshotter=false", "--feature", "time-namespaces=false"},
		})
	}
	return all
}

// readsZstd says whether the engine takes layers in zstd.
func (e engine) readsZstd() bool { return e.bin != "" }

// Prime recompresses, and lanes run containers from the very references of an exact image, whatever the store. An engine
// that is too old for it pulls, and says why.
func TestLayersInZstdRun(t *testing.T) {
	gate(t)
	stores := map[string]func(t *testing.T) string{
		"dir": func(t *testing.T) string { return "dir:" + newStore(t) },
		"oci": func(t *testing.T) string { return "oci://" + brands()[0].start(t).addr + "/me/images" },
	}
	for _, e := range zstdEngines() {
		for _, kind := range sortedKeys(stores) {
			t.Run(e.name+"/"+kind, func(t *testing.T) {
				f, d := needImages(t), e.start(t)
				r := startRegistry(t, f.storage)
				small, medium := r.addr+"/"+f.small.repoTag, r.addr+"/"+f.medium.repoTag
				args := []string{"--images", small, "--images", medium + "@" + f.medium.root.String(), "--store", stores[kind](t), "--layers", "zstd"}
				p := pullonce(t, d)
				primed := p.run(t, with([]string{"prime"}, args...)...)
				require.Equal(t, 0, primed.code)
				for _, row := range primed.report.Images {
					require.True(t, strings.HasPrefix(row.Reason, "zstd: "), row.Reason)
				}
				require.Len(t, r.blobs(t), f.small.layers+f.medium.layers-2+2, "each layer is fetched once, and two configs")
				again := p.run(t, with([]string{"prime", "--verify", "full"}, args...)...)
				require.Equal(t, []report.Source{report.Cache, report.Cache}, again.sources())

				before := r.requests(t)
				loaded := p.run(t, with([]string{"load"}, args...)...)
				require.Equal(t, 0, loaded.code)
				requireRuns(t, d, small, medium)
				if !e.readsZstd() {
					require.Equal(t, []report.Source{report.Registry, report.Registry}, loaded.sources())
					require.Equal(t, report.Degraded, loaded.report.Result)
					requireKinds(t, loaded.report, "layers", "layers", "digest")
					return
				}
				require.Equal(t, []report.Source{report.Cache, report.Cache}, loaded.sources())
				require.Equal(t, before, r.requests(t), "a lane or a container asked the registry")
				if e.containerdStore {
					requireRuns(t, d, medium+"@"+f.medium.root.String(), r.addr+"/e2e/medium@"+f.medium.root.String())
				}
				present := p.run(t, with([]string{"load"}, args...)...)
				require.Equal(t, []report.Source{report.Present, report.Present}, present.sources())
			})
		}
	}
}

// requireKinds holds a report to problems of these kinds.
func requireKinds(t *testing.T, r report.Report, want ...string) {
	t.Helper()
	var kinds []string
	for _, p := range r.Problems {
		kinds = append(kinds, p.Kind)
	}
	require.Equal(t, want, kinds)
}

func requireRuns(t *testing.T, d *daemon, refs ...string) {
	t.Helper()
	for _, ref := range refs {
		d.run(t, ref, busybox, "true")
	}
}

// blobs are the requests for blobs so far.
func (r *registry) blobs(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, line := range r.requests(t) {
		if strings.Contains(line, "/blobs/sha256:") {
			found = append(found, line)
		}
	}
	return found
}

// The same through the cache service, as steps of a workflow.
func TestLayersInZstdThroughTheCache(t *testing.T) {
	gate(t)
	for _, e := range zstdEngines() {
		if !e.readsZstd() {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			s := newService(t, cachetest.Options{}, startRegistry(t, needImages(t).storage), e.start(t), "zstd-"+e.name)
			primed := s.prime(t, "layers", "zstd")
			require.Equal(t, 0, primed.code)
			primed.requireAnnotations(t)
			require.True(t, strings.HasPrefix(s.Entries()[0].Key, "pullonce-v2-"))
			s.requireLoaded(t, s.lane(t, "layers", "zstd"), report.Cache)
			missed := s.lane(t)
			require.Equal(t, 0, missed.code)
			require.Contains(t, missed.log, "key-salt and layers", "another word is another key")
		})
	}
}

// What docs/zstd.md says that a daemon does with such an image besides running it.
func TestLayersInZstdAreNotHandedOn(t *testing.T) {
	gate(t)
	for _, e := range zstdEngines() {
		if !e.readsZstd() {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			p := dockerPlace{d: e.start(t)}
			img := recompressed(t, indexed(t, "e2e.test/kept:1", "kept"))
			_, err := p.target(t).Load(t.Context(), img)
			require.NoError(t, err)
			dir := tempDir(t)
			writeFile(t, dir, "Dockerfile", "FROM e2e.test/kept:1\nRUN [\"/bin/busybox\", \"touch\", \"/built\"]\n")
			p.d.docker(t, "build", "--network", "none", "--tag", "e2e.test/built:1", dir)
			p.d.run(t, "e2e.test/built:1", busybox, "ls", "/built")

			saved := filepath.Join(dir, "saved.tar")
			p.d.docker(t, "save", "--output", saved, "e2e.test/kept:1")
			info, err := os.Stat(saved)
			require.NoError(t, err)
			program, err := os.Stat(busybox)
			require.NoError(t, err)
			require.Equal(t, e.containerdStore, info.Size() < program.Size(), "the archive of %d bytes has the layers, or not", info.Size())

			r := startRegistry(t, tempDir(t))
			p.d.docker(t, "tag", "e2e.test/kept:1", r.addr+"/kept:1")
			_, err = p.d.tryDocker(t, "push", r.addr+"/kept:1")
			require.Equal(t, e.containerdStore, err != nil)
		})
	}
}

// recompressed is img with layers in zstd.
func recompressed(t *testing.T, img image.Image) image.Image {
	t.Helper()
	s := recompress.New(recompress.Options{Dir: tempDir(t)})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	packed, err := s.Claim(img).Image(t.Context(), nil)
	require.NoError(t, err)
	require.True(t, packed.Recompressed())
	return packed
}

// Every reference that a target answers to after an exact load it answers to after one of layers in zstd, or it says that it
// can't take them and has nothing new.
func TestTargetsTableOfLayersInZstd(t *testing.T) {
	gate(t)
	starts := tablePlaces()
	starts["docker-classic"] = nil
	for _, e := range zstdEngines() {
		if !e.containerdStore {
			starts["docker-classic"] = append(starts["docker-classic"], func(t *testing.T) place { return dockerPlace{d: e.start(t)} })
		}
	}
	for row, cells := range tableRows(t) {
		for i, start := range starts[row] {
			t.Run(fmt.Sprintf("%s/%d", row, i+1), func(t *testing.T) {
				p := start(t)
				byTag := indexed(t, "e2e.test/table:1", "table")
				byDigest := recompressed(t, indexed(t, byTag.Reference().Tagged()+"@"+byTag.Root().Digest.String(), "table"))
				switch d, isDocker := p.(dockerPlace); {
				case isDocker && !d.d.readsZstd():
					requireRefused(t, p, byDigest)
					requireRefused(t, p, recompressed(t, byTag))
				case strings.HasPrefix(row, "podman"):
					requireRefused(t, p, byDigest)
					tryZstdRow(t, p, recompressed(t, byTag), []string{"yes"})
				default:
					tryZstdRow(t, p, byDigest, cells)
				}
			})
		}
	}
}

func tryZstdRow(t *testing.T, p place, img image.Image, cells []string) {
	t.Helper()
	result, err := p.target(t).Load(t.Context(), img)
	require.NoError(t, err)
	require.Equal(t, target.Loaded, result.Outcome)
	for i, cell := range cells {
		if ref := forms(img)[i]; cell == "yes" {
			assert.NoError(t, p.create(t, ref), ref)
		}
	}
	result, err = p.target(t).Load(t.Context(), img)
	require.NoError(t, err)
	require.Equal(t, target.Present, result.Outcome)
}

func requireRefused(t *testing.T, p place, img image.Image) {
	t.Helper()
	before := p.names(t)
	_, err := p.target(t).Load(t.Context(), img)
	require.ErrorIs(t, err, target.ErrRecompressed)
	require.Equal(t, before, p.names(t))
}
