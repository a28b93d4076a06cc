package containerd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
)

// bring sends the image under the name of its root, and proves that it is whole. What of it is there, or on its way with
// another image, is left out at first; where that does not do, the whole is sent.
func (l *load) bring(ctx context.Context, about About) (sent int64, err error) {
	client, ok := l.Client.(Stager)
	if !ok {
		return l.bringWhole(ctx, about)
	}
	var looking sync.WaitGroup
	looking.Go(func() { l.abandoned.look(ctx, client) })
	defer func() {
		looking.Wait()
		l.temporary = append(l.temporary, l.abandoned.take()...)
	}()

	leading := l.leading(ctx, client)
	l.queue.turn(ctx, l.ticket)
	parts, release := l.underway.claim(l.img.Layers(), leading, l.leastPart(), l.img.Awaitable())
	l.queue.leave(l.ticket)
	defer func() {
		if err != nil {
			release()
		}
	}()
	sent, err = l.bringParts(ctx, about, parts)
	if err == nil || !l.isSaid(err) || len(parts) == 1 && parts[0].from == 0 || ctx.Err() != nil {
		return sent, err
	}
	again, err := l.bringWhole(ctx, about)
	return sent + again, err
}

// leading is how many of the image's first layers need not be sent. A small image is sent sooner than that is known, and what
// can't be asked is no reason to give up.
func (l *load) leading(ctx context.Context, client Stager) int {
	if l.isSmall() {
		return 0
	}
	layers, blobs := digestsOf(l.img.Layers()), l.blobs
	if blobs == nil {
		blobs, _ = client.Blobs(ctx, layers)
	}
	if n := slices.IndexFunc(layers, func(sum digest.Digest) bool { return !slices.Contains(blobs, sum) }); n >= 0 {
		return n
	}
	return len(layers)
}

func (l *load) isSmall() bool { return bytesOf(l.img.Layers()) < l.leastPart()/2 }

func digestsOf(layers []image.Layer) []digest.Digest {
	digests := make([]digest.Digest, len(layers))
	for i, layer := range layers {
		digests[i] = layer.Descriptor.Digest
	}
	return digests
}

// isSaid says whether it is the containerd that would not have an image in parts: not its source that failed, and not a
// disk that is too small for it in any form.
func (l *load) isSaid(err error) bool {
	failed, client := errors.AsType[*ClientError](err)
	if client && failed.killed() {
		return false // no archive needs less memory
	}
	_, unproven := errors.AsType[unprovenError](err)
	return (client || unproven || errors.Is(err, errBelow)) && !strings.Contains(err.Error(), "no space left on device")
}

func (l *load) bringWhole(ctx context.Context, about About) (sent int64, err error) {
	return l.bringParts(ctx, about, []*part{newPart(l.img.Layers(), 0, len(l.img.Layers()), nil)})
}

// bringParts sends the parts, each in an archive of its own, and proves that the image is whole then. The layers are read
// one after the other, as those have to who share one read of an image.
func (l *load) bringParts(ctx context.Context, about About, parts []*part) (int64, error) {
	if l.Room != nil {
		need := 2 * bytesOf(l.img.Layers()[parts[0].from:]) // content, and what that unpacks to
		if err := l.Room(ctx, about, need); err != nil {
			return 0, finish(parts, err)
		}
	}
	archives, err := l.archives(parts)
	if err != nil {
		return 0, finish(parts, err)
	}
	var sent atomic.Int64
	var held []Held // once the last part is there
	importing, ctxOfAll := errgroup.WithContext(ctx)
	for i, p := range parts {
		importing.Go(func() error {
			now, n, err := l.bringPart(ctxOfAll, p, parts[:i], archives[i])
			sent.Add(n)
			p.finish(err)
			if archives[i].Then != nil {
				held = now
			}
			return err
		})
	}
	if err := importing.Wait(); err != nil {
		return sent.Load(), err
	}
	return sent.Load(), l.prove(held, []string{l.byRoot()})
}

// bringPart sends a part when it is its turn.
func (l *load) bringPart(ctx context.Context, p *part, earlier []*part, archive Archive) ([]Held, int64, error) {
	if err := p.next(ctx, earlier); err != nil {
		return nil, 0, err
	}
	archive.Begin = func(ctx context.Context) error { return p.turn(ctx, earlier) }
	return l.Import(ctx, archive)
}

// archives are what the parts are sent as: the last one is the image, and asks what came of it; in front of it are images of
// its first layers.
func (l *load) archives(parts []*part) ([]Archive, error) {
	archives := make([]Archive, len(parts))
	name, err := newPartName()
	for i, p := range parts {
		img := l.img
		if i < len(parts)-1 && err == nil {
			img, err = l.img.Prefix(p.end, name)
			l.temporary = append(l.temporary, name.WithDigest(img.Root().Digest), img.Config().Digest.String())
		}
		if err == nil {
			img, err = img.ByDigest()
		}
		if err != nil {
			return nil, err
		}
		archives[i] = Archive{Image: img, Without: p.from, Ready: p.ready}
	}
	query := l.query()
	last := &archives[len(archives)-1]
	last.Then, last.Ready = &query, func(ctx context.Context) error {
		err := parts[len(parts)-1].ready(ctx)
		if err == nil {
			l.made = append(l.made, l.byRoot(), l.kubelets()) // from here on: what names the image ends its archive
		}
		return err
	}
	return archives, nil
}
