package actions

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pullonce/pullonce/internal/retry"
)

// pace holds all calls of the process back while the service has told one of them to wait. Safe for concurrent use.
type pace struct {
	mu     sync.Mutex
	coldTo time.Time
}

// coolDown lets no call start for d from now on.
func (p *pace) coolDown(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(d); until.After(p.coldTo) {
		p.coldTo = until
	}
}

// wait blocks until a call may start. Those that have waited start one by one, spread over a second. What takes longer
// than the whole schedule is not waited for: it is a throttle like the service's own.
func (p *pace) wait(ctx context.Context, policy retry.Policy) error {
	p.mu.Lock()
	left := time.Until(p.coldTo)
	p.mu.Unlock()
	if left <= 0 {
		return nil
	}
	if left > policy.Timeout {
		return &fault{class: retry.Throttled, after: left, text: fmt.Sprintf("the service asks for %s without calls", left.Round(time.Second))}
	}
	return retry.Sleep(ctx, left+time.Duration(policy.Jitter()*float64(time.Second)))
}
