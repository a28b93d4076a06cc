package simulatetest

import (
	"context"
	"fmt"
	"math"

	"github.com/pullonce/pullonce/internal/simulate"
)

// Comparison is a run for real beside simulated runs of the same lanes.
type Comparison struct {
	Name     string
	Lanes    int
	Real     simulate.Outcome
	Failed   float64 // simulated, on average
	Requests float64
}

// Compare simulates the lanes of a run for real, as often as it takes for a steady mean.
func Compare(ctx context.Context, name string, c Check, seed uint64, real simulate.Outcome) Comparison {
	const runs = 25
	compared := Comparison{Name: name, Lanes: c.Setting.Lanes, Real: real}
	for i := range uint64(runs) {
		out := simulate.Once(ctx, c.Setting, c.Strategy, simulate.Places(c.Setting, seed), i)
		compared.Failed += float64(out.Failed) / runs
		compared.Requests += float64(out.Requests) / runs
	}
	return compared
}

// String is both in one line.
func (c Comparison) String() string {
	return fmt.Sprintf("%s: %d of %d lanes failed and %d requests were made for real, %.1f and %.0f simulated",
		c.Name, c.Real.Failed, c.Lanes, c.Real.Requests, c.Failed, c.Requests)
}

// Check says where the two do not agree within 10 %, or where a run says little: it lost nearly none or nearly all.
func (c Comparison) Check() error {
	switch share := float64(c.Real.Failed) / float64(c.Lanes); {
	case share < 0.05 || share > 0.95:
		return fmt.Errorf("%s: %d of %d lanes failed, which decides nothing", c.Name, c.Real.Failed, c.Lanes)
	case apart(float64(c.Real.Failed), c.Failed) > 0.1, apart(float64(c.Real.Requests), c.Requests) > 0.1:
		return fmt.Errorf("more than 10 %% apart: %s", c)
	}
	return nil
}

// apart is how far b is from a, as a share of a.
func apart(a, b float64) float64 { return math.Abs(a-b) / a }
