//go:build linux

package e2e

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cachetest"
	"github.com/pullonce/pullonce/internal/report"
)

// written is what a process that has ended wrote to disks, in bytes. File systems in memory count nothing.
func written(cmd *exec.Cmd) int64 {
	return cmd.ProcessState.SysUsage().(*syscall.Rusage).Oublock * 512
}

// few is what a run may write besides layers, in bytes.
const few = 2 << 20

// A prime writes each byte once, wherever it goes, and a lane none.
func TestBytesWrittenToDisk(t *testing.T) {
	gate(t)
	f := needImages(t)
	source, depot := startRegistry(t, f.storage), startRegistry(t, tempDir(t))
	cache, err := cachetest.Start(cachetest.New(cachetest.Options{}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cache.Close()) })
	d := engines()[0].start(t)
	p := pullonce(t, d)
	for name, store := range map[string]string{
		"a folder": "dir:" + newStore(t), "the cache": "actions", "a registry": "oci://" + depot.addr + "/cache",
	} {
		t.Run(name, func(t *testing.T) {
			run := func(mode string) (outcome, int64) {
				cmd := p.command(t, mode, "--store", store, "--images", source.addr+"/"+f.medium.repoTag, "--json")
				cmd.Env = append(cmd.Env, "ACTIONS_RESULTS_URL="+cache.URL, "ACTIONS_RUNTIME_TOKEN="+cachetest.Token)
				done := finish(t, cmd, nil)
				require.Equal(t, 0, done.code)
				return done, written(cmd)
			}
			primed, bytes := run("prime")
			size := primed.report.Images[0].Size
			t.Logf("prime: %d bytes written for an image of %d", bytes, size)
			require.LessOrEqual(t, bytes, size+few)
			loaded, bytes := run("load")
			require.Equal(t, []report.Source{report.Cache}, loaded.sources())
			t.Logf("lane: %d bytes written", bytes)
			require.LessOrEqual(t, bytes, int64(few))
			d.empty(t)
		})
	}
}
