package containerd

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullonce/pullonce/internal/image"
)

// freshFor is how long the answer about an image that is expected holds. Then others may have changed it.
const freshFor = 5 * time.Second

// Expect asks about images that are about to be loaded, all in one question, and keeps the answer for the first load of
// each; of those that are not there, what there is of their layers. It only saves time: what goes wrong is for the loads to find
// out.
func (n *Namespace) Expect(ctx context.Context, images []image.Image) {
	loads := make([]*load, len(images))
	var q Query
	for i, img := range images {
		loads[i] = &load{Namespace: n, img: img}
		q.Names, q.Targets = append(q.Names, loads[i].names()...), append(q.Targets, loads[i].ids()...)
	}
	a := answer{at: time.Now()}
	var err error
	if a.held, err = n.Find(ctx, q); err != nil {
		return
	}
	loads = slices.DeleteFunc(loads, func(l *load) bool { return found{held: a.held}.whole(l.ids()) != "" })
	if client, ok := n.Client.(Stager); ok && len(loads) > 0 {
		a.blobs = n.lookAhead(ctx, client, loads)
	}
	n.expected.put(images, a)
}

// lookAhead asks at once whatever the loads will want to know: their blobs that are there, which it gives; nil is not known.
func (n *Namespace) lookAhead(ctx context.Context, client Stager, loads []*load) (blobs []digest.Digest) {
	var layers []digest.Digest
	for _, l := range loads {
		if !l.isSmall() {
			layers = append(layers, digestsOf(l.img.Layers())...)
		}
	}
	slices.Sort(layers)
	var asked sync.WaitGroup
	asked.Go(func() { client.Prepare(ctx) })
	asked.Go(func() { n.abandoned.look(ctx, client) })
	if len(layers) > 0 {
		asked.Go(func() {
			if there, err := client.Blobs(ctx, slices.Compact(layers)); err == nil {
				blobs = append([]digest.Digest{}, there...)
			}
		})
	}
	asked.Wait()
	return blobs
}

// expected are the answers about images that are about to be loaded. The zero value works.
type expected struct {
	mu      sync.Mutex
	answers map[digest.Digest]answer // by the image's manifest
}

// answer is what a containerd had at a time: images, and blobs of those that it had not; nil is not known.
type answer struct {
	held  []Held
	blobs []digest.Digest
	at    time.Time
}

func (e *expected) put(images []image.Image, a answer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.answers == nil {
		e.answers = map[digest.Digest]answer{}
	}
	for _, img := range images {
		e.answers[img.Manifest().Digest] = a
	}
}

// take gives the answer about an image once: the load that takes it changes what it is about.
func (e *expected) take(img image.Image) (a answer, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a, ok = e.answers[img.Manifest().Digest]
	delete(e.answers, img.Manifest().Digest)
	return a, ok && time.Since(a.at) < freshFor
}
