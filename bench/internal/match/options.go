//go:build linux

// Package match owns the order of a benchmark: which questions are asked, who plays when, and what is made and cleared
// between rounds. It knows nothing of what the contenders do.
package match

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pullonce/pullonce/bench/internal/contender"
	"github.com/pullonce/pullonce/bench/internal/sample"
)

// The kinds of file system that targets keep images on, and that jobs run on.
const (
	Tmpfs = "tmpfs"
	Disk  = "disk"
)

// Options say what is measured. All fields are required but Contenders and Pullonce.
type Options struct {
	// Images, Targets, Data and Modes select questions by name, Contenders who plays; no contenders are all.
	Images, Targets, Data, Modes, Contenders []string
	Rounds                                   int
	// Bandwidth, in bytes a second, and Latency of a request are those of the line to the store.
	Bandwidth int64
	Latency   time.Duration
	// Kept has the line serve from memory what the store has when a question is asked, so that the store needs no processor
	// of the machine that is measured.
	Kept bool
	// Bin is the folder of Docker 29 and containerd 2.4.
	Bin string
	// Pullonce is our binary; empty is to build it.
	Pullonce string
	// Root is the folder of our sources. Cache keeps, from run to run, images and programs. Temp holds the rest.
	Root, Cache, Temp string
	// Environ is the environment that programs are built in; others are given its PATH.
	Environ []string
	// Child is the command line of the process that starts what is measured.
	Child []string
	// Progress is told what happens.
	Progress io.Writer
}

// folder is the folder for what is on a kind of file system.
func (o Options) folder(data string) string { return filepath.Join(o.Temp, data) }

// asks says whether a question is one to ask: it was selected, and it means something. A prime does not load, so it is not
// asked of a kind node; of the five images a warm prime alone is asked.
func (o Options) asks(mode contender.Mode, image, target string) bool {
	primes := mode == contender.Cold || mode == contender.Warm
	return slices.Contains(o.Modes, string(mode)) && !(primes && target == contender.Kind) && !(image == sample.Five && mode != contender.Warm)
}

// environ is a copy of the environment.
func (o Options) environ() []string { return slices.Clone(o.Environ) }

// path is the PATH of the environment.
func (o Options) path() string {
	for _, variable := range o.Environ {
		if path, ok := strings.CutPrefix(variable, "PATH="); ok {
			return path
		}
	}
	return ""
}

// plays says whether a contender was selected.
func (o Options) plays(name string) bool {
	return len(o.Contenders) == 0 || slices.Contains(o.Contenders, name)
}
