//go:build linux

package match

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/pullonce/pullonce/bench/internal/contender"
	"github.com/pullonce/pullonce/bench/internal/link"
	"github.com/pullonce/pullonce/bench/internal/measure"
	"github.com/pullonce/pullonce/bench/internal/sample"
	"github.com/pullonce/pullonce/bench/internal/stage"
)

// hall is what all questions share.
type hall struct {
	closers
	options  Options
	runner   measure.Runner
	shelf    sample.Shelf
	registry *stage.Registry
	programs contender.Programs
}

// closers end what was started, the newest first.
type closers []func() error

func (c *closers) add(f func() error) { *c = append(*c, f) }

func (c *closers) close() error {
	var errs []error
	for i := len(*c) - 1; i >= 0; i-- {
		errs = append(errs, (*c)[i]())
	}
	*c = nil
	return errors.Join(errs...)
}

// open makes the folders and the programs, and starts the registry.
func open(ctx context.Context, o Options) (*hall, error) {
	h := &hall{options: o, runner: measure.Runner{Child: o.Child, Dir: o.folder(streams)}}
	h.add(func() error { return stage.Unmount(o.Temp) })
	if err := h.start(ctx); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func (h *hall) start(ctx context.Context) (err error) {
	if err := h.options.mount(); err != nil {
		return err
	}
	if h.programs, err = h.options.install(ctx); err != nil {
		return err
	}
	if h.shelf, err = sample.NewShelf(h.options.Cache); err != nil {
		return err
	}
	if h.registry, err = stage.StartRegistry(ctx, "docker-registry", h.options.path(), h.options.Temp, h.shelf.Storage()); err != nil {
		return err
	}
	h.add(h.registry.Close)
	return nil
}

// streams is the folder for what programs write to their streams: in memory, so that no disk is charged with it.
const streams = "streams"

// mount makes the folders of the kinds of file system.
func (o Options) mount() error {
	for _, data := range append([]string{streams}, o.Data...) {
		if err := os.MkdirAll(o.folder(data), 0o755); err != nil {
			return err
		}
		if data == Disk {
			continue
		}
		if err := syscall.Mount("pullonce-bench", o.folder(data), "tmpfs", 0, "mode=755,size=80%"); err != nil {
			return fmt.Errorf("mounting a tmpfs: %w", err)
		}
	}
	return nil
}

// reading is what the meters stand at: the processor time of the target's daemons, of the whole machine, and of all that
// belongs to the benchmark; and what was asked of store and registry.
type reading struct {
	cpu, busy, ours time.Duration
	store, registry link.Counts
}

// read reads the meters.
func (h *hall) read(ctx context.Context, s *contender.Scene) (reading, error) {
	registry, err := h.registry.Counts(ctx)
	if err != nil {
		return reading{}, err
	}
	r := reading{store: s.Store.Counts(), registry: registry}
	if r.cpu, err = measure.TreeCPU(proc, s.Target.Processes()...); err != nil {
		return r, err
	}
	if r.ours, err = measure.TreeCPU(proc, append(s.Target.Processes(), os.Getpid())...); err != nil {
		return r, err
	}
	r.busy, err = measure.BusyCPU(proc)
	return r, err
}
