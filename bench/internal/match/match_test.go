//go:build linux

package match

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/bench/internal/contender"
	"github.com/pullonce/pullonce/bench/internal/sample"
	"github.com/pullonce/pullonce/bench/internal/stage"
)

func TestAsksWhatMeansSomething(t *testing.T) {
	t.Parallel()
	o := Options{Modes: contender.Modes()}
	for _, test := range []struct {
		mode          contender.Mode
		image, target string
		want          bool
	}{
		{contender.Lane, sample.M, contender.Kind, true},
		{contender.Cold, sample.M, contender.Kind, false},
		{contender.Warm, sample.M, contender.Kind, false},
		{contender.Warm, sample.Five, contender.Docker, true},
		{contender.Lane, sample.Five, contender.Docker, false},
	} {
		require.Equal(t, test.want, o.asks(test.mode, test.image, test.target), test)
	}
	require.False(t, Options{Modes: []string{"lane"}}.asks(contender.Cold, sample.M, contender.Docker))
}

func TestPlays(t *testing.T) {
	t.Parallel()
	require.True(t, Options{}.plays("crane"))
	require.True(t, Options{Contenders: []string{"crane"}}.plays("crane"))
	require.False(t, Options{Contenders: []string{"crane"}}.plays("pullonce"))
}

// The engine under test is the one that the end-to-end suite builds.
func TestTheEngineIsThatOfCI(t *testing.T) {
	t.Parallel()
	ci, err := os.ReadFile(filepath.Join("..", "..", "..", ".ci", "run"))
	require.NoError(t, err)
	for _, line := range []string{"readonly moby=" + engineModule, "readonly containerd=" + containerdModule, "readonly containerd_version=" + containerdVersion} {
		require.Contains(t, string(ci), line+"\n")
	}
}

func TestTheReleaseFlagsAreThoseOfTheMakefile(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join("..", "..", "..", "Makefile"))
	require.NoError(t, err)
	for _, flags := range []string{"-trimpath", "-ldflags '-s -w -buildid='", "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0"} {
		require.Contains(t, string(makefile), flags)
	}
}

func TestField(t *testing.T) {
	t.Parallel()
	cpu := "processor\t: 0\nmodel name\t: A Processor\nmodel name\t: Another\n"
	require.Equal(t, "A Processor", field(cpu, "model name", ":"))
	require.Equal(t, "123 kB", field("MemTotal:       123 kB\n", "MemTotal", ":"))
	require.Empty(t, field(cpu, "cache", ":"))
}

func TestFileSystemIsThatOfTheNearestMount(t *testing.T) {
	t.Parallel()
	mounts := "/dev/vda / ext4 rw 0 0\ntmpfs /tmp/bench tmpfs rw 0 0\nnone /tmp/bench2 xfs rw 0 0\n"
	for folder, want := range map[string]string{"/tmp/bench/tmpfs": "tmpfs", "/tmp/bench": "tmpfs", "/tmp/benchmark": "ext4", "/tmp/bench2/x": "xfs"} {
		require.Equal(t, want, fileSystem(mounts, folder), folder)
	}
}

func TestPathIsThatOfTheEnvironment(t *testing.T) {
	t.Parallel()
	require.Equal(t, "/a:/b", Options{Environ: []string{"MANPATH=/m", "PATH=/a:/b"}}.path())
	require.Empty(t, Options{}.path())
}

func TestEngineOf(t *testing.T) {
	t.Parallel()
	require.False(t, engineOf(contender.Docker, "/bin", "bin").ContainerdStore)
	require.Contains(t, engineOf(contender.Docker, "/bin", "bin").Flags, "containerd-snapshotter=false")
	require.True(t, engineOf(contender.Kind, "/bin", "bin").ContainerdStore)
	require.Equal(t, stage.EngineOptions{Name: contender.Docker20, Path: "/bin"}, engineOf(contender.Docker20, "/bin", "bin"), "Debian's is on PATH")
}
