//go:build linux

package contender

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/bench/internal/sample"
	"github.com/pullonce/pullonce/bench/internal/stage"
)

func TestEveryNameTakesPart(t *testing.T) {
	t.Parallel()
	taking := map[string]bool{}
	for _, mode := range Modes() {
		for _, target := range Targets() {
			for _, c := range Of(Mode(mode), target) {
				taking[c.Name] = true
				require.NotNil(t, c.Commands, c.Name)
				require.NotNil(t, c.Verify, c.Name)
			}
		}
	}
	for _, name := range Names() {
		require.True(t, taking[name], name)
	}
	require.Len(t, taking, len(Names()))
}

func TestNoDaemonIsPulledIntoOnANode(t *testing.T) {
	t.Parallel()
	for _, c := range Of(Lane, Kind) {
		require.NotContains(t, []string{DockerPull, SkopeoInto}, c.Name)
	}
}

// newScene is one whose commands are not run.
func newScene(t *testing.T, name string, images ...string) *Scene {
	t.Helper()
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	e := &stage.Engine{EngineOptions: stage.EngineOptions{Path: "/bin"}}
	s := &Scene{
		Name: name, Engine: e, Target: Engine(Docker, e), Registry: &stage.Registry{Addr: "127.0.0.1:5"}, Dir: t.TempDir(), Root: root,
		Programs: Programs{Pullonce: "/p/pullonce", Crane: "/p/crane", Modules: "/m"},
	}
	for _, image := range images {
		s.Images = append(s.Images, sample.Image{Repository: "bench/" + image, Tag: "1"})
	}
	return s
}

func TestTheHandWrittenWayOfASet(t *testing.T) {
	t.Parallel()
	var lines []string
	for _, c := range craneAndLoad(newScene(t, "set", "a", "b"), 1) {
		lines = append(lines, c.String())
	}
	require.Equal(t, "/p/crane pull 127.0.0.1:5/bench/a:1 127.0.0.1:5/bench/b:1 images.tar", lines[0])
	require.Contains(t, lines[1], "docker load --input ")
	require.Len(t, pull(newScene(t, "set", "a", "b"), 1), 2)
}

// Our binary is given what the runner gives the action's step, and the environment of nobody else.
func TestOurEnvironmentIsTheRunners(t *testing.T) {
	t.Parallel()
	s := newScene(t, "M", "m")
	env := s.runnerEnv("http://127.0.0.1:7/")
	for _, want := range []string{
		"GITHUB_ACTIONS=true", "ACTIONS_RESULTS_URL=http://127.0.0.1:7/", "RUNNER_TEMP=" + s.Dir + "/_temp", "GITHUB_WORKSPACE=" + s.Dir + "/app/app",
		"HOME=" + s.Dir + "/home",
	} {
		require.Contains(t, env, want)
	}
	paths := slices.DeleteFunc(slices.Clone(env), func(v string) bool { return !strings.HasPrefix(v, "PATH=") })
	require.Equal(t, []string{"PATH=/bin"}, paths)
	for _, v := range env {
		_, value, _ := strings.Cut(v, "=")
		require.NotContains(t, value, "WORK", v)
	}
}

func TestResetGivesEmptyFolders(t *testing.T) {
	t.Parallel()
	s := newScene(t, "M", "m")
	require.NoError(t, s.Reset())
	require.NoError(t, os.WriteFile(s.file(), nil, 0o644))
	kept := s.archives(false)
	require.NoError(t, os.MkdirAll(kept, 0o755))
	require.NoError(t, s.Reset())
	require.NoFileExists(t, s.file())
	require.DirExists(t, s.workspace())
	require.DirExists(t, kept)
}

func TestWhatDidNothingIsFoundOut(t *testing.T) {
	t.Parallel()
	s := newScene(t, "M", "m")
	require.NoError(t, verifyFound(t.Context(), s, Outcome{Stdout: "Cache hit\n\"images-M-docker\"\n"}))
	require.EqualError(t, verifyFound(t.Context(), s, Outcome{Stdout: "null\n"}), "the client found null, not images-M-docker")
	require.NoError(t, verifyWarm(t.Context(), s, Outcome{Stdout: `{"images":[{"source":"cache"}]}`}))
	require.ErrorContains(t, verifyWarm(t.Context(), s, Outcome{Stdout: `{"images":[{"source":"registry"}]}`}), "found 0 of 1 images")
}

func TestZstdNeedsTheOption(t *testing.T) {
	t.Parallel()
	require.EqualError(t, knowsZstd(t.Context(), &Scene{}), "this pullonce has no option layers")
	require.NoError(t, knowsZstd(t.Context(), &Scene{Programs: Programs{Zstd: true}}))
}
