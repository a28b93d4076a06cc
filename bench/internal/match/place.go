//go:build linux

package match

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pullonce/pullonce/bench/internal/contender"
	"github.com/pullonce/pullonce/bench/internal/link"
	"github.com/pullonce/pullonce/bench/internal/stage"
)

// place is a target with the engine that it is or runs in, and an empty store.
type place struct {
	closers
	engine *stage.Engine
	target contender.Target
	store  *stage.Store
}

// openPlace starts a target whose images are on a kind of file system.
func (h *hall) openPlace(ctx context.Context, data, target string) (*place, error) {
	p := &place{}
	err := p.startStore(ctx, h)
	if err == nil {
		err = p.startTarget(ctx, h.options, data, target)
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// startStore starts the store. Its files are on the disk, whatever the job's are on: they are another machine's.
func (p *place) startStore(ctx context.Context, h *hall) (err error) {
	dir, err := os.MkdirTemp(h.options.Temp, "store-")
	if err != nil {
		return err
	}
	p.add(func() error { return os.RemoveAll(dir) })
	line := link.Options{Bandwidth: h.options.Bandwidth, Latency: h.options.Latency}
	if p.store, err = stage.StartStore(ctx, filepath.Join(h.programs.Modules, "node_modules"), dir, line); err != nil {
		return err
	}
	p.add(p.store.Close)
	return nil
}

func (p *place) startTarget(ctx context.Context, o Options, data, target string) (err error) {
	roots := filepath.Join(o.folder(data), "roots")
	if p.engine, err = stage.StartEngine(ctx, filepath.Join(o.Temp, "engines-"+data), roots, engineOf(target, o.path(), o.Bin)); err != nil {
		return err
	}
	p.add(func() error {
		return errors.Join(p.engine.Close(), stage.Unmount(filepath.Join(o.Temp, "engines-"+data)), stage.Unmount(roots), os.RemoveAll(roots))
	})
	p.target = contender.Engine(target, p.engine)
	if target != contender.Kind {
		return nil
	}
	node, err := stage.StartNode(ctx, p.engine)
	if err != nil {
		return err
	}
	p.add(node.Close)
	p.target = contender.Node(node, p.engine)
	return nil
}

// engineOf is the engine that a target is, or that runs it. Debian's runc is older than the time namespaces that Docker 29
// asks for.
func engineOf(target, path, bin string) stage.EngineOptions {
	if target == contender.Docker20 {
		return stage.EngineOptions{Name: target, Path: path}
	}
	o := stage.EngineOptions{Name: target, Path: path, Bin: bin, ContainerdStore: target != contender.Docker}
	o.Flags = []string{"--feature", "time-namespaces=false", "--feature", fmt.Sprintf("containerd-snapshotter=%t", o.ContainerdStore)}
	return o
}
