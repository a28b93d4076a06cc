//go:build linux

package e2e

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/docker"
)

// interruptTime is how long a run may take to end once it is asked to.
const interruptTime = 2 * time.Second

// A lane that is ended while the daemon pulls from it leaves the name that it was to take where it was, and the next lane
// ends what it began. What the daemon may keep of the pull has no name that anybody knows.
func TestLoadEndedWhileTheDaemonPulls(t *testing.T) {
	forEachEngine(t, func(t *testing.T, d *daemon) {
		f := needImages(t)
		r := startRegistry(t, f.storage)
		p := pullonce(t, d)
		args := primed(t, p, r, f.large)
		small, large := r.addr+"/"+f.small.repoTag, r.addr+"/"+f.large.repoTag
		d.docker(t, "pull", "--quiet", small)
		d.docker(t, "tag", small, large)
		for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			before := treeSize(t, d.roots)
			cmd := p.command(t, args...)
			require.NoError(t, cmd.Start())
			d.dockerd.eventually(t, "the daemon takes the image in", func() bool { return treeSize(t, d.roots) > before+16<<20 })
			require.NoError(t, cmd.Process.Signal(signal))
			began := time.Now()
			require.Error(t, cmd.Wait())
			require.Less(t, time.Since(began), interruptTime)
			require.ElementsMatch(t, []string{small, large}, d.names(t))
			require.Equal(t, d.id(t, small), d.id(t, large))
		}
		loaded := p.run(t, args...)
		require.Equal(t, 0, loaded.code)
		require.Equal(t, []report.Source{report.Cache}, loaded.sources())
		require.ElementsMatch(t, []string{small, large}, d.names(t))
		require.NotEqual(t, d.id(t, small), d.id(t, large))
		d.run(t, large, busybox, "true")
	})
}

// What a daemon has pulled is there for good: it survives that the daemon is tidied and started anew, whether its layers
// are the registry's own or not, and answers to every name.
func TestPulledImagesStay(t *testing.T) {
	gate(t)
	for _, e := range zstdEngines() {
		t.Run(e.name, func(t *testing.T) {
			p := dockerPlace{e.start(t), docker.Pull}
			byTag := indexed(t, "e2e.test/exact:1", "exact")
			images := []image.Image{byTag, indexed(t, "e2e.test/exact@"+byTag.Root().Digest.String(), "exact")}
			if e.readsZstd() {
				images = append(images, recompressed(t, indexed(t, "e2e.test/zstd:1", "zstd")))
			}
			for _, img := range images {
				_, err := p.target(t).Load(t.Context(), img)
				require.NoError(t, err)
			}
			names := p.names(t)
			p.d.docker(t, "image", "prune", "--force")
			p.d.restart(t)
			require.ElementsMatch(t, names, p.names(t))
			require.ElementsMatch(t, names, strings.Fields(p.d.docker(t, "image", "ls", "--all", "--format", "{{.Repository}}:{{.Tag}}")))
			for _, img := range images {
				ref := img.Reference().String()
				if img.Reference().Tag() == "" && !e.containerdStore {
					ref = img.Config().Digest.String()
				}
				p.d.run(t, ref, busybox, "true")
				result, err := p.target(t).Load(t.Context(), img)
				require.NoError(t, err)
				require.NotEqual(t, target.Loaded, result.Outcome)
			}
		})
	}
}

// A daemon that does not get through to the program's loopback address, as from a container of its own network, is sent the
// image.
func TestLoadWhereTheDaemonDoesNotReachUs(t *testing.T) {
	forEachEngine(t, func(t *testing.T, d *daemon) {
		f := needImages(t)
		r := startRegistry(t, f.storage)
		p := pullonce(t, d)
		args := append(primed(t, p, r, f.large), "--json")
		cmd := p.command(t, args...)
		script := busybox + ` ip link set lo up && exec "$0" "$@"`
		cmd.Path, cmd.Args = busybox, append([]string{"busybox", "sh", "-c", script}, cmd.Args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}

		loaded := finish(t, cmd, nil)
		require.Equal(t, 0, loaded.code)
		require.Empty(t, loaded.report.Problems)
		require.Equal(t, []report.Source{report.Cache}, loaded.sources())
		ref := r.addr + "/" + f.large.repoTag
		require.Equal(t, []string{ref}, d.names(t))
		d.run(t, ref, busybox, "true")
	})
}
