//go:build linux

package app

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pullonce/pullonce/bench/internal/contender"
	"github.com/pullonce/pullonce/bench/internal/match"
	"github.com/pullonce/pullonce/bench/internal/sample"
)

// flags are the command's.
type flags struct {
	images, targets, data, modes, contenders names
	rounds                                   int
	bandwidth                                int64 // MB/s
	latency                                  time.Duration
	bin, dir, pullonce, json, svg, from      string
	check, kept                              bool
}

// names is a list of known names.
type names struct {
	known []string
	set   []string
}

var _ flag.Value = (*names)(nil)

// String implements flag.Value.
func (n *names) String() string { return strings.Join(n.set, ",") }

// Set implements flag.Value.
func (n *names) Set(list string) error {
	n.set = nil
	for _, name := range strings.Split(list, ",") {
		if !slices.Contains(n.known, name) {
			return fmt.Errorf("%q is none of %s", name, strings.Join(n.known, ", "))
		}
		n.set = append(n.set, name)
	}
	return nil
}

func parse(args []string, stderr io.Writer) (flags, error) {
	f := flags{
		images:     names{sample.Names(), []string{sample.Small, sample.M, sample.Set, sample.Five}},
		targets:    names{contender.Targets(), []string{contender.Docker, contender.DockerContainerd, contender.Kind}},
		data:       names{[]string{match.Tmpfs, match.Disk}, []string{match.Tmpfs}},
		modes:      names{contender.Modes(), contender.Modes()},
		contenders: names{known: contender.Names()},
	}
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.Usage = func() {
		fmt.Fprintf(stderr, "Usage: go run ./bench [flags], on Debian 12 as root\n\n%s\n\n", about)
		set.PrintDefaults()
	}
	set.Var(&f.images, "images", "images, or sets of them, to move: "+strings.Join(f.images.known, ","))
	set.Var(&f.targets, "targets", "what to load them into: "+strings.Join(f.targets.known, ","))
	set.Var(&f.data, "data", "file systems of targets and jobs: "+strings.Join(f.data.known, ","))
	set.Var(&f.modes, "modes", "jobs to measure: "+strings.Join(f.modes.known, ","))
	set.Var(&f.contenders, "contenders", "who takes part, all where it is empty: "+strings.Join(f.contenders.known, ","))
	set.IntVar(&f.rounds, "rounds", 5, "how often each does each job")
	set.Int64Var(&f.bandwidth, "bandwidth", 100, "of the line to the cache service, in MB/s; 0 is without bound")
	set.DurationVar(&f.latency, "latency", 20*time.Millisecond, "of a request to the cache service")
	set.BoolVar(&f.kept, "kept", true, "have the line serve blobs from memory, as a service does that has processors of its own; else Azurite does, on these cores")
	set.StringVar(&f.bin, "bin", "", "folder of Docker 29 and containerd 2.4; what is not there is built into it, which takes a while (default: where .ci/run full builds them)")
	set.StringVar(&f.dir, "dir", "", "folder for a temporary one, on the disk to measure (default: the system's)")
	set.StringVar(&f.pullonce, "pullonce", "", "binary to measure (default: built from this checkout, as a release is)")
	set.StringVar(&f.json, "json", "", "file for the report as JSON")
	set.StringVar(&f.svg, "svg", "", "file for the picture of the lanes")
	set.StringVar(&f.from, "from", "", "measure nothing: show, as one, the reports in these JSON files, with commas between them")
	set.BoolVar(&f.check, "check", false, "exit with 1 where a limit is not met")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	return f, f.validate(set.Args())
}

const about = `All contenders do each job in turn (A B A B), each time from the same state, and each time it is proven afterwards that the
images are there. One question in a minute: -images M -targets kind -modes lane -contenders hand-written,pullonce -rounds 3`

func (f flags) validate(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q is no flag", rest[0])
	case f.rounds < 1:
		return errors.New("rounds must be at least 1")
	case f.bandwidth < 0 || f.latency < 0:
		return errors.New("bandwidth and latency must not be negative")
	default:
		return nil
	}
}

// options are the run's, with its temporary folder.
func (f flags) options(temp string, p Process) (o match.Options, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return o, err
	}
	self, err := os.Executable()
	if err != nil {
		return o, err
	}
	root, err := sources()
	if err != nil {
		return o, err
	}
	bin := f.bin
	if bin == "" {
		bin = filepath.Join(cache, "pullonce-ci", "engine")
	}
	return match.Options{
		Images: f.images.set, Targets: f.targets.set, Data: f.data.set, Modes: f.modes.set, Contenders: f.contenders.set,
		Rounds: f.rounds, Bandwidth: f.bandwidth * 1_000_000, Latency: f.latency, Kept: f.kept, Bin: bin, Pullonce: f.pullonce, Root: root,
		Cache: filepath.Join(cache, "pullonce-bench"), Temp: temp, Child: []string{self, measureMode}, Environ: p.Environ, Progress: p.Stderr,
	}, nil
}

// sources is the folder of our sources: this one, or one above it.
func sources() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("run it in a checkout of pullonce")
		}
	}
}
