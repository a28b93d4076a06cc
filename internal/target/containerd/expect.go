package containerd

import (
	"context"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullonce/pullonce/internal/image"
)

// freshFor is how long the answer about an image that is expected holds. Then others may have changed it.
const freshFor = 5 * time.Second

// Expect asks about images that are about to be loaded, all in one question, and keeps the answer for the first load of
// each. It only saves time: what goes wrong is for the loads to find out.
func (n *Namespace) Expect(ctx context.Context, images []image.Image) {
	var names []string
	var ids []digest.Digest
	for _, img := range images {
		l := &load{Namespace: n, img: img}
		names, ids = append(names, l.names()...), append(ids, l.ids()...)
	}
	if held, err := n.Find(ctx, names, ids); err == nil {
		n.expected.put(images, held)
	}
}

// expected are the answers about images that are about to be loaded. The zero value works.
type expected struct {
	mu      sync.Mutex
	answers map[digest.Digest]answer // by the image's manifest
}

// answer is what a containerd had at a time.
type answer struct {
	held []Held
	at   time.Time
}

func (e *expected) put(images []image.Image, held []Held) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.answers == nil {
		e.answers = map[digest.Digest]answer{}
	}
	for _, img := range images {
		e.answers[img.Manifest().Digest] = answer{held, time.Now()}
	}
}

// take gives the answer about an image once: the load that takes it changes what it is about.
func (e *expected) take(img image.Image) (held []Held, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a, ok := e.answers[img.Manifest().Digest]
	delete(e.answers, img.Manifest().Digest)
	return a.held, ok && time.Since(a.at) < freshFor
}
