//go:build linux

package match

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/pullonce/pullonce/bench/internal/contender"
	"github.com/pullonce/pullonce/bench/internal/result"
	"github.com/pullonce/pullonce/bench/internal/sample"
)

// Run asks every question that the options select. What it found out until an error is in the report.
func Run(ctx context.Context, o Options) (r result.Report, err error) {
	r = result.Report{
		Date: time.Now().UTC().Truncate(time.Second), Images: map[string][]sample.Image{},
		Settings: result.Settings{Bandwidth: o.Bandwidth, Latency: o.Latency, Kept: o.Kept, Rounds: o.Rounds},
	}
	h, err := open(ctx, o)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if r.Machine, err = machine(o); err != nil {
		return r, err
	}
	if r.Programs, err = h.versions(ctx); err != nil {
		return r, err
	}
	for _, name := range o.Images {
		fmt.Fprintf(o.Progress, "image %s\n", name)
		if r.Images[name], err = h.shelf.Get(ctx, name, h.registry.Addr); err != nil {
			return r, err
		}
	}
	for _, data := range o.Data {
		for _, target := range o.Targets {
			cases, err := h.askAll(ctx, data, target, r.Images)
			r.Cases = append(r.Cases, cases...)
			if err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// askAll starts a target on a kind of file system and asks every question of it.
func (h *hall) askAll(ctx context.Context, data, target string, images map[string][]sample.Image) (cases []result.Case, err error) {
	p, err := h.openPlace(ctx, data, target)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	for _, image := range h.options.Images {
		s := &contender.Scene{
			Name: image, Images: images[image], Target: p.target, Engine: p.engine, Registry: h.registry, Store: p.store,
			Programs: h.programs, Runner: h.runner, Dir: filepath.Join(h.options.folder(data), "job"), Root: h.options.Root,
		}
		for _, name := range contender.Modes() {
			mode := contender.Mode(name)
			if !h.options.asks(mode, image, target) {
				continue
			}
			fmt.Fprintf(h.options.Progress, "%s: %s, %s on %s\n", mode, image, target, data)
			c, err := h.ask(ctx, mode, s)
			c.Data = data
			cases = append(cases, c)
			if err != nil {
				return cases, err
			}
		}
	}
	return cases, nil
}
