package target

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/platform"
)

// Locks are mutexes by name that a context can end the wait for. Back ends serialise with them what two loads of this
// process would do to one image or to one name. The zero value works.
type Locks struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

// Lock waits for its turn at name, or for the end of ctx.
func (l *Locks) Lock(ctx context.Context, name string) (unlock func(), err error) {
	for {
		l.mu.Lock()
		busy, taken := l.held[name]
		if !taken {
			if l.held == nil {
				l.held = make(map[string]chan struct{})
			}
			done := make(chan struct{})
			l.held[name] = done
			l.mu.Unlock()
			return func() { l.unlock(name, done) }, nil
		}
		l.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for another load of it: %w", context.Cause(ctx))
		}
	}
}

func (l *Locks) unlock(name string, done chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, name)
	close(done)
}

// Cleaning up goes on when the load was cancelled, but then it has to be done before the process is.
const (
	cleanUpTime   = 30 * time.Second
	cancelledTime = time.Second
)

// Cleaning is a context for what has to be undone after a load under ctx that failed.
func Cleaning(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := cleanUpTime
	if ctx.Err() != nil {
		limit = cancelledTime
	}
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}

// Runs refuses an image for another operating system or architecture than the target's. Variants are the target's own
// to judge.
func Runs(img image.Image, on platform.Platform) error {
	p := img.Platform()
	if p.OS == on.OS && p.Architecture == on.Architecture {
		return nil
	}
	return fmt.Errorf("the image is for %s, containers here are %s: pin it for that platform, with platforms=%s", p, on, on)
}

// Apart is img with an archive that containerd's importer can't mix up with that of another load: see image.Below.
func Apart(img image.Image) (image.Image, error) { return img.Below("pullonce-" + rand.Text()) }
