//go:build linux

package contender

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pullonce/pullonce/bench/internal/measure"
	"github.com/pullonce/pullonce/internal/cachetest"
)

func ourLanes() []Contender {
	return []Contender{
		{Name: Exact, Prepare: primed(false), Commands: load(false), Verify: verifyTarget},
		{Name: Zstd, Prepare: primed(true), Commands: load(true), Verify: verifyTarget, targets: readZstd()},
		{Name: Plain, Prepare: archived(false), Commands: loadArchives(false), Verify: verifyTarget},
		{Name: PlainZstd, Prepare: archived(true), Commands: loadArchives(true), Verify: verifyAny, targets: readZstd()},
	}
}

// readZstd are the targets that can read layers in zstd: Docker can from version 23 on.
func readZstd() []string { return []string{Docker, DockerContainerd, Kind} }

func present() []Contender {
	return []Contender{{Name: Exact, Prepare: loaded, Commands: load(false), Verify: verifyTarget}}
}

func ourPrimes() []Contender {
	return []Contender{
		{Name: Exact, Commands: prime(false), Verify: verifyPrimed(false)},
		{Name: Zstd, Prepare: knowsZstd, Commands: prime(true), Verify: verifyPrimed(true)},
	}
}

func ourWarmPrimes() []Contender {
	return []Contender{{Name: Exact, Prepare: primed(false), Commands: warm, Verify: verifyWarm}}
}

func warm(s *Scene, _ int) []measure.Command {
	return []measure.Command{s.pullonce("prime", false, "", "--json")}
}

// verifyWarm proves that a prime found every image in the cache.
func verifyWarm(_ context.Context, s *Scene, o Outcome) error {
	if n := strings.Count(o.Stdout, `"source":"cache"`) + strings.Count(o.Stdout, `"source": "cache"`); n != len(s.Images) {
		return fmt.Errorf("a warm prime found %d of %d images: %s", n, len(s.Images), o.Stdout)
	}
	return nil
}

// pullonce runs our binary as the action's last step does: with the environment that the runner gives it.
func (s *Scene) pullonce(mode string, zstd bool, salt string, more ...string) measure.Command {
	argv := []string{s.Programs.Pullonce, mode, "--store", "actions"}
	if salt != "" {
		argv = append(argv, "--key-salt", salt)
	}
	if zstd {
		argv = append(argv, "--layers", "zstd")
	}
	for _, ref := range s.refs() {
		argv = append(argv, "--images", ref)
	}
	return measure.Command{Argv: append(argv, more...), Dir: s.workspace(), Env: s.runnerEnv(s.Store.URL(false))}
}

// runnerEnv is the environment of the action's last step: what the runner sets for it, and what the step before hands over.
func (s *Scene) runnerEnv(resultsURL string) []string {
	env := []string{"PATH=" + s.Engine.Path}
	for _, name := range []string{"machine", "composite"} {
		data, err := os.ReadFile(filepath.Join(s.Root, "testdata", "runner", name+".env"))
		if err != nil {
			continue // the run fails of what it lacks
		}
		for line := range strings.Lines(string(data)) {
			name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
			if ok && name[0] != '#' && name != "PATH" {
				env = append(env, name+"="+strings.NewReplacer("WORK", s.Dir, "ACTION", s.Root).Replace(value))
			}
		}
	}
	return append(env, "DOCKER_HOST="+s.Engine.Host(), "ACTIONS_RUNTIME_TOKEN="+cachetest.Token, "ACTIONS_RESULTS_URL="+resultsURL)
}

func load(zstd bool) func(*Scene, int) []measure.Command {
	return func(s *Scene, _ int) []measure.Command {
		return []measure.Command{s.pullonce("load", zstd, "", "--into", s.Target.Into(), "--on-miss", "fail")}
	}
}

func prime(zstd bool) func(*Scene, int) []measure.Command {
	return func(s *Scene, round int) []measure.Command {
		return []measure.Command{s.pullonce("prime", zstd, salt(round))}
	}
}

func salt(round int) string { return fmt.Sprintf("round-%d", round) }

// knowsZstd says whether our binary has the option.
func knowsZstd(_ context.Context, s *Scene) error {
	if !s.Programs.Zstd {
		return errors.New("this pullonce has no option layers")
	}
	return nil
}

// primed is the prime job before our lanes.
func primed(zstd bool) func(context.Context, *Scene) error {
	return func(ctx context.Context, s *Scene) error {
		if err := knowsZstd(ctx, s); zstd && err != nil {
			return err
		}
		_, err := s.run(ctx, s.pullonce("prime", zstd, ""))
		return err
	}
}

// loaded is a lane before the lane.
func loaded(ctx context.Context, s *Scene) error {
	if err := primed(false)(ctx, s); err != nil {
		return err
	}
	_, err := s.run(ctx, load(false)(s, 0)...)
	return err
}

// verifyPrimed proves that the cache has what a prime of this round saved: a lane that may not pull finds it.
func verifyPrimed(zstd bool) func(context.Context, *Scene, Outcome) error {
	return func(ctx context.Context, s *Scene, o Outcome) error {
		_, err := s.run(ctx, s.pullonce("load", zstd, salt(o.Round), "--into", "none", "--on-miss", "fail"))
		return err
	}
}

// verifyAny proves that the target has the images. What kind load runs imports all that is in an archive, but it does not know
// which of its manifests our zstd archive means by the name.
func verifyAny(ctx context.Context, s *Scene, _ Outcome) error {
	for _, img := range s.Images {
		if err := s.Target.VerifyAny(ctx, img.Ref(s.Registry.Addr), img); err != nil {
			return err
		}
	}
	return nil
}

// archives is the folder of the archives that we make of the images.
func (s *Scene) archives(zstd bool) string {
	return filepath.Join(s.Dir, fmt.Sprintf("archives-%s-%t", s.Name, zstd))
}

// archived makes the archives.
func archived(zstd bool) func(context.Context, *Scene) error {
	return func(ctx context.Context, s *Scene) error {
		if err := knowsZstd(ctx, s); zstd && err != nil {
			return err
		}
		c := s.pullonce("prime", zstd, "")
		for i, word := range c.Argv {
			if word == "actions" {
				c.Argv[i] = "dir:" + s.archives(zstd)
			}
		}
		_, err := s.run(ctx, c)
		return err
	}
}

// loadArchives loads them as people load any archive.
func loadArchives(zstd bool) func(*Scene, int) []measure.Command {
	return func(s *Scene, _ int) []measure.Command {
		files, _ := filepath.Glob(filepath.Join(s.archives(zstd), "*", "image.tar")) // the pattern is well-formed
		var commands []measure.Command
		for _, file := range files {
			commands = append(commands, s.Target.Load(file))
		}
		return commands
	}
}
