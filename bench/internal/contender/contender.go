//go:build linux

// Package contender owns the ways to get images into a cache and from there into a target: ours and those that people use.
// Each is a list of commands, run as a person or a workflow would run them. It knows nothing of how they are timed.
package contender

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/pullonce/pullonce/bench/internal/measure"
	"github.com/pullonce/pullonce/bench/internal/sample"
	"github.com/pullonce/pullonce/bench/internal/stage"
)

// Mode is a kind of job.
type Mode string

// The kinds of job that are measured.
const (
	Lane    Mode = "lane"         // images from the cache, or another source, into a target that has none of them
	Present Mode = "lane-present" // a lane whose target has all its images
	Cold    Mode = "prime-cold"   // images from the registry into a cache that has none of them
	Warm    Mode = "prime-warm"   // a cache that has them all
)

// The contenders by name.
const (
	HandWritten = "hand-written"        // docker pull, docker save and @actions/cache; its restore and the target's load
	LookupOnly  = "hand-written-lookup" // a warm prime that asks @actions/cache whether the entry is there, and moves nothing
	Exact       = "pullonce"
	Zstd        = "pullonce-zstd"   // layers: zstd
	DockerPull  = "docker-pull"     // from a registry on this machine, which has no limit
	Crane       = "crane"           // crane pull to an archive; the target's load, or @actions/cache's save
	SkopeoFile  = "skopeo-archive"  // skopeo copy to an archive, and the target's load
	SkopeoInto  = "skopeo-daemon"   // skopeo copy to the daemon
	Plain       = "plain-load"      // the target's load of the archive that ours keeps, from page cache
	PlainZstd   = "plain-load-zstd" // the same of layers: zstd
)

// Names are all contenders.
func Names() []string {
	return []string{HandWritten, LookupOnly, Exact, Zstd, DockerPull, Crane, SkopeoFile, SkopeoInto, Plain, PlainZstd}
}

// Modes are all kinds of job.
func Modes() []string { return []string{string(Lane), string(Present), string(Cold), string(Warm)} }

// Contender is a way to do a job.
type Contender struct {
	Name string
	// Prepare makes what is there before the job starts, as what a prime job saved; nil is nothing.
	Prepare func(ctx context.Context, s *Scene) error
	// Commands do the job. The round tells the entries of one prime from those of the next.
	Commands func(s *Scene, round int) []measure.Command
	// Verify proves that the job is done.
	Verify func(ctx context.Context, s *Scene, o Outcome) error
	// targets are those that it can do; nil is all.
	targets []string
}

// Outcome is what a round of commands left.
type Outcome struct {
	Round int
	// Stdout is what the last command wrote.
	Stdout string
}

// Scene is what a job plays in: a target, images, and a file system.
type Scene struct {
	// Name is that of the images; it is part of keys.
	Name   string
	Images []sample.Image
	Target Target
	// Engine is the Docker engine that the target is, or that runs it.
	Engine   *stage.Engine
	Registry *stage.Registry
	Store    *stage.Store
	Programs Programs
	// Runner runs commands that are not timed as it does those that are.
	Runner measure.Runner
	// Dir is the job's folder: the workspace and the runner's temporary folder are in it.
	Dir string
	// Root is the folder of our sources.
	Root string
}

// Programs are where the programs that are no part of Debian are.
type Programs struct {
	// Pullonce is our binary, built as a release is.
	Pullonce string
	// Zstd says that it knows the option layers.
	Zstd bool
	// Crane is crane's.
	Crane string
	// Modules is the folder of @actions/cache and of the scripts that use it.
	Modules string
}

// workspace is the folder that the job's steps run in.
func (s *Scene) workspace() string { return filepath.Join(s.Dir, "app", "app") }

// refs are the references of the images.
func (s *Scene) refs() []string {
	refs := make([]string, len(s.Images))
	for i, img := range s.Images {
		refs[i] = img.Ref(s.Registry.Addr)
	}
	return refs
}

// key is the key of what people keep in the cache for these images: an archive for each kind of engine.
func (s *Scene) key(parts ...string) string {
	key := "images-" + s.Name + "-" + s.Target.Name()
	for _, part := range parts {
		key += "-" + part
	}
	return key
}

// Reset gives the job empty folders, as a fresh runner has. What Prepare made elsewhere stays.
func (s *Scene) Reset() error {
	for _, dir := range []string{"app", "_temp", "home"} {
		if err := os.RemoveAll(filepath.Join(s.Dir, dir)); err != nil {
			return err
		}
	}
	for _, dir := range []string{s.workspace(), filepath.Join(s.Dir, "home"), filepath.Join(s.Dir, "_temp", "_runner_file_commands"), filepath.Join(s.Dir, "_temp", "_github_workflow")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// run runs commands one after the other, untimed.
func (s *Scene) run(ctx context.Context, commands ...measure.Command) (string, error) {
	var last string
	for _, c := range commands {
		var err error
		if _, last, err = s.Runner.Run(ctx, c); err != nil {
			return "", err
		}
	}
	return last, nil
}

// Of are the contenders of a job on a target.
func Of(mode Mode, target string) []Contender {
	var taking []Contender
	for _, c := range all(mode) {
		if c.targets == nil || slices.Contains(c.targets, target) {
			taking = append(taking, c)
		}
	}
	return taking
}

func all(mode Mode) []Contender {
	switch mode {
	case Lane:
		return append(theirLanes(), ourLanes()...)
	case Present:
		return present()
	case Cold:
		return append(theirPrimes(), ourPrimes()...)
	default:
		return append(theirWarmPrimes(), ourWarmPrimes()...)
	}
}
