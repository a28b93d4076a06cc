package docker

import (
	"context"
	"sync"
)

// locks are mutexes by name that a context can end the wait for. The zero value works.
type locks struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

// lock waits for its turn at name, or for the end of ctx.
func (l *locks) lock(ctx context.Context, name string) (unlock func(), err error) {
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
			return nil, context.Cause(ctx)
		}
	}
}

func (l *locks) unlock(name string, done chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, name)
	close(done)
}
