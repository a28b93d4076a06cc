// Package link owns the line between a workflow's machines and the cache service: how wide it is, how long a request takes
// to answer, and what went over it. It knows nothing of what is sent.
package link

import (
	"context"
	"sync"
	"time"
)

// bandwidth is a number of bytes a second that all transfers share. Safe for concurrent use.
type bandwidth struct {
	rate float64 // bytes a second; 0 is without bound

	mu   sync.Mutex
	free time.Time // when the line has sent all that was given to it
}

// burst is how far the line may be behind: who asks less often than that loses no bandwidth.
const burst = 5 * time.Millisecond

// take waits until the line has sent n bytes.
func (b *bandwidth) take(ctx context.Context, n int) error {
	if b.rate <= 0 {
		return nil
	}
	return sleep(ctx, time.Until(b.reserve(time.Now(), n)))
}

// reserve puts n bytes behind those that are on their way, and says when they have been sent.
func (b *bandwidth) reserve(now time.Time, n int) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if earliest := now.Add(-burst); b.free.Before(earliest) {
		b.free = earliest
	}
	b.free = b.free.Add(time.Duration(float64(n) / b.rate * float64(time.Second)))
	return b.free
}

// sleep waits, or less if ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
