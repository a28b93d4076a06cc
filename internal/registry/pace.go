package registry

import (
	"context"
	"fmt"
	"time"

	"github.com/pullonce/pullonce/internal/pace"
	"github.com/pullonce/pullonce/internal/retry"
)

// pacer is the pace of one host, waited for.
type pacer struct{ pace.Pacer }

// wait blocks until a request may start. A cool-down longer than most is not waited for: it is a throttle like the
// host's own.
func (p *pacer) wait(ctx context.Context, most time.Duration) error {
	for {
		now := time.Now()
		if cooling := p.Cooling(now); cooling > most {
			return &Fault{class: retry.Throttled, after: cooling, text: fmt.Sprintf("asks for %s without requests", cooling.Round(time.Millisecond))}
		}
		if err := retry.Sleep(ctx, p.Reserve(now).Sub(now)); err != nil {
			return err
		}
		// Another pull may have been told to wait meanwhile.
		if p.Cooling(time.Now()) <= 0 {
			return nil
		}
	}
}
