//go:build linux

// Package app owns the benchmark's command line: flags, what is written where, and exit codes. It knows nothing of
// measuring.
package app

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/pullonce/pullonce/bench/internal/match"
	"github.com/pullonce/pullonce/bench/internal/measure"
	"github.com/pullonce/pullonce/bench/internal/picture"
	"github.com/pullonce/pullonce/bench/internal/result"
)

// The exit codes.
const (
	exitOK     = 0 // everything was measured
	exitFailed = 1 // something could not be measured, or with -check a limit is not met
	exitUsage  = 2 // wrong flags, or a machine that can't run it
)

// Process is what the command is given by main.
type Process struct {
	Args, Environ  []string
	Stdout, Stderr io.Writer
}

// measureMode is the argument of the process that starts what is measured.
const measureMode = "measure"

// Main runs the command and gives its exit code.
func Main(ctx context.Context, p Process) int {
	if len(p.Args) == 3 && p.Args[1] == measureMode {
		return p.exit(measure.Child(p.Args[2], p.Stdout), exitFailed)
	}
	f, err := parse(p.Args[1:], p.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		return p.exit(err, exitUsage)
	}
	if f.from != "" {
		return p.again(f)
	}
	return p.measure(ctx, f)
}

// exit tells of an error, if there is one.
func (p Process) exit(err error, code int) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(p.Stderr, "error:", err)
	return code
}

// measure runs the benchmark in a temporary folder.
func (p Process) measure(ctx context.Context, f flags) int {
	if os.Geteuid() != 0 {
		return p.exit(errors.New("the benchmark starts container engines: run it as root"), exitUsage)
	}
	temp, err := os.MkdirTemp(f.dir, "pullonce-bench-")
	if err != nil {
		return p.exit(err, exitUsage)
	}
	options, err := f.options(temp, p)
	if err != nil {
		return p.exit(errors.Join(err, os.RemoveAll(temp)), exitUsage)
	}
	r, err := match.Run(ctx, options)
	err = errors.Join(err, os.RemoveAll(temp))
	if len(r.Cases) == 0 {
		return p.exit(err, exitFailed)
	}
	r.Settings.Command = strings.Join(append([]string{"go run ./bench"}, p.Args[1:]...), " ")
	r.Checks = result.Judge(r)
	return p.tell(f, r, err)
}

// again shows, as one, reports that earlier runs wrote.
func (p Process) again(f flags) int {
	var reports []result.Report
	for _, name := range strings.Split(f.from, ",") {
		data, err := os.ReadFile(name)
		if err != nil {
			return p.exit(err, exitUsage)
		}
		var r result.Report
		if err := json.Unmarshal(data, &r); err != nil {
			return p.exit(fmt.Errorf("reading the report %s: %w", name, err), exitUsage)
		}
		reports = append(reports, r)
	}
	joined, err := result.Join(reports...)
	if err != nil {
		return p.exit(err, exitUsage)
	}
	return p.tell(f, joined, nil)
}

// tell writes what was found out, as far as the run came.
func (p Process) tell(f flags, r result.Report, err error) int {
	err = errors.Join(err, r.Write(p.Stdout))
	if f.json != "" {
		data, encoding := json.MarshalIndent(r, "", "  ")
		err = errors.Join(err, encoding, write(f.json, append(data, '\n')))
	}
	if f.svg != "" {
		err = errors.Join(err, write(f.svg, picture.Draw(r)))
	}
	if err != nil {
		return p.exit(err, exitFailed)
	}
	if f.check && !r.Met() {
		return p.exit(errors.New("a limit is not met"), exitFailed)
	}
	return exitOK
}

func write(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}
