//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// loadKills is how many moments a load into containerd is killed at.
const loadKills = 5

// Killed at any moment, a load leaves names of parts at most, or the image whole; the next load completes it, and what is
// left of parts goes once nobody can be at work on them.
func TestLoadIntoContainerdKilled(t *testing.T) {
	gate(t)
	for _, e := range engines() {
		t.Run(e.version(), func(t *testing.T) {
			f := needImages(t)
			r := startRegistry(t, f.storage)
			large, small := r.addr+"/"+f.large.repoTag, r.addr+"/"+f.small.repoTag
			store := newStore(t)
			p := pullonce(t, nil)
			require.Equal(t, 0, p.run(t, with([]string{"prime"}, pins(t, store, large, small)...)...).code)
			place := e.startContainerd(t)
			load := func(ref string, kill time.Duration) (killed bool, took time.Duration) {
				cmd := p.command(t, with([]string{"load", "--into", "containerd"}, pins(t, store, ref)...)...)
				cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(place.ctr)+":"+os.Getenv("PATH"), "CONTAINERD_ADDRESS="+place.socket)
				began := time.Now()
				require.NoError(t, cmd.Start())
				timer := time.AfterFunc(kill, func() { _ = cmd.Process.Kill() })
				defer timer.Stop()
				_ = cmd.Wait()
				status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
				require.True(t, ok)
				return status.Signaled(), time.Since(began)
			}
			_, length := load(large, time.Hour)
			require.NoError(t, place.create(t, large))

			random, parts := seeded(t), 0
			for i := range loadKills {
				var moment time.Duration
				for killed := false; !killed; {
					place.clear(t)
					moment = time.Duration((float64(i) + random.Float64()) / loadKills * float64(length))
					var took time.Duration
					if killed, took = load(large, moment); !killed {
						length = min(length, took) // it came to its own end first
					}
				}
				left := place.settle(t)
				t.Logf("killed after %s of %s: %d names", moment.Round(time.Millisecond), length.Round(time.Millisecond), len(left))
				var partial []string // what parts are images of: the CRI plugin has names of its own for these
				for _, name := range left {
					if _, id, ok := strings.Cut(name, "@"); ok && strings.Contains(name, "pullonce.invalid/part/") {
						partial = append(partial, id)
					}
				}
				parts += len(partial)
				for _, name := range left {
					out, err := place.run(t, "images", "check", "name=="+name)
					require.NoError(t, err)
					if slices.ContainsFunc(partial, func(id string) bool { return strings.Contains(out, " "+id+" ") }) {
						continue
					}
					require.Regexp(t, `complete .* true`, strings.Join(strings.Fields(out), " "), "%s has a name and is not whole", name)
				}
			}
			require.Positive(t, parts, "no kill left a part")
			killed, _ := load(large, time.Hour)
			require.False(t, killed)
			require.NoError(t, place.create(t, large))

			aged := fmt.Sprintf("pullonce.invalid/part/%d-x@%s", time.Now().Add(-2*time.Hour).Unix(), f.large.root)
			_, err := place.run(t, "images", "tag", large, aged)
			require.NoError(t, err)
			_, _ = load(small, time.Hour)
			require.NotContains(t, place.names(t), aged)
			require.NoError(t, place.create(t, small))
			require.NoError(t, place.create(t, large))
		})
	}
}

// settle waits until no client of a killed load is at work any more, and gives the names that there are then.
func (p *containerdPlace) settle(t *testing.T) []string {
	t.Helper()
	require.Eventually(t, func() bool {
		processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
		require.NoError(t, err)
		return !slices.ContainsFunc(processes, func(name string) bool {
			argv, _ := os.ReadFile(name)
			return strings.Contains(string(argv), p.socket+"\x00--namespace\x00k8s.io\x00images\x00import")
		})
	}, patience, 100*time.Millisecond)
	return p.names(t)
}
