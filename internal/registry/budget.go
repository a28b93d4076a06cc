package registry

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pullonce/pullonce/internal/retry"
)

// graceShare is the part of the timeout by which the last attempt may outlive it: a fortieth.
const graceShare = 40

// budget is the time that one pull may spend on waits and on attempts that come to nothing. A transfer that makes
// progress spends none of it, and neither does whoever reads the layers slowly. Safe for concurrent use.
type budget struct {
	total time.Duration

	mu       sync.Mutex
	spent    time.Duration
	failures int
	ended    bool // the last failure was the end
}

// left is what may be spent yet.
func (b *budget) left() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, b.total-b.spent)
}

// cut says how much of a limit is left to wait for a sign of life, after nothing has come for as long as quiet: near the
// end of the budget it is less than the limit, so that a hang does not outlive the timeout.
func (b *budget) cut(limit, quiet time.Duration) time.Duration {
	return max(0, min(limit, b.left()-quiet+b.total/graceShare))
}

func (b *budget) spend(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent += d
}

// failed counts an attempt that came to nothing.
func (b *budget) failed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
}

// attempts is how many there were, counting those that came to nothing and, unless that was the end, the one that did not.
func (b *budget) attempts() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return max(1, b.failures) // 0 where it was interrupted between two requests
	}
	return b.failures + 1
}

// end notes that no other attempt follows.
func (b *budget) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}

// run tries until it works, until another try can't help, or until the budget is spent. Its error counts all that the pull
// has tried before.
func (b *budget) run(ctx context.Context, p retry.Policy, try func(ctx context.Context) error) error {
	before := b.attempts() - 1
	p.Timeout, p.Used = b.total, b.total-b.left()
	mark := time.Now()
	_, err := retry.Do(ctx, p, func(ctx context.Context, _ int) error {
		b.spend(time.Since(mark)) // the wait before
		mark = time.Now()
		err := try(ctx)
		if err != nil {
			b.failed()
			b.spend(time.Since(mark))
		}
		mark = time.Now()
		return err
	})
	if end, ok := errors.AsType[*retry.Error](err); ok {
		end.Attempts += before
		b.end()
	}
	return err
}
