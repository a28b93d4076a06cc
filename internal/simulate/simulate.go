// Package simulate owns the answer to "what would my matrix do against this limit": lanes, images, a throttle and the cache
// service as a model in virtual time, run over many seeds, with the real schedule of package retry and the real pace of
// package pace. It knows no network; what it says of registries is in its presets, each with its source.
//
// The model, so that its answers can be judged. A job asks for one image after the other. Of an image it asks for the
// documents, one after the other, then for the blobs; a request takes the latency, give or take a half, and is counted
// half-way. A registry counts requests in a token bucket for each IP. Requests for tokens are left out: registries count
// them elsewhere. Bytes move at the job's bandwidth, whatever else moves.
package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Strategy is a way of getting the images into the lanes.
type Strategy string

// The strategies.
const (
	// Pull is each lane for itself, three quick tries an image: what people write by hand.
	Pull Strategy = "pull"
	// PullDeadline is each lane for itself, on our schedule.
	PullDeadline Strategy = "pull-deadline"
	// Prime is ours: one job pulls, the lanes load from the cache.
	Prime Strategy = "prime"
)

// Strategies are all of them, in the order in which they are shown.
func Strategies() []Strategy { return []Strategy{Pull, PullDeadline, Prime} }

// MaxLanes is the widest matrix that is simulated.
const MaxLanes = 100_000

// Options say what is simulated.
type Options struct {
	Setting Setting
	// Preset is where the throttle is from; nil is none.
	Preset *Preset
	// Strategies are those that are compared; none is all.
	Strategies []Strategy
	// Seed is the first of the seeds; each run has its own.
	Seed uint64
	// Runs is how many runs each probability rests on; 0 is as many as the width allows: see DefaultRuns.
	Runs int
}

// DefaultRuns is how many runs a matrix is given that asks for no number: 400, fewer where that would be much work, and
// never fewer than 10.
func DefaultRuns(s Setting) int { return min(400, max(10, work/s.counted())) }

// work is how many requests that count are simulated for each verdict, about: enough for a second or two.
const work = 2_000_000

// counted is how many requests of a run count where every lane pulls.
func (s Setting) counted() int {
	perImage := documents
	if s.Throttle.CountBlobs {
		perImage = s.Image.requests()
	}
	return s.Lanes * s.Images * perImage
}

// sweepRuns is how many runs a point of the sweep rests on, of those that the full width has: fewer, since there are many
// points.
func sweepRuns(s Setting, runs int) int { return min(runs, max(5, work/8/s.counted())) }

// Run simulates each strategy over all seeds, and over the narrower matrices. An error is a setting that makes no sense, or
// the end of ctx.
func Run(ctx context.Context, o Options) (Answer, error) {
	if err := o.Setting.Validate(); err != nil {
		return Answer{}, err
	}
	if len(o.Strategies) == 0 {
		o.Strategies = Strategies()
	}
	if o.Runs <= 0 {
		o.Runs = DefaultRuns(o.Setting)
	}
	a := Answer{Setting: o.Setting, Preset: o.Preset, Seed: o.Seed, Runs: o.Runs}
	for _, strategy := range o.Strategies {
		verdict, sample := judge(ctx, o.Setting, strategy, o.Seed, o.Runs)
		a.Strategies = append(a.Strategies, verdict)
		a.Timelines = append(a.Timelines, Timeline{Strategy: strategy, Counted: sample.counted, Shed: sample.shed, Attempts: sample.attempts})
	}
	a.Widths = o.sweep(ctx, a.Strategies)
	return a, context.Cause(ctx)
}

// sweep is how each strategy does at smaller widths of the same matrix; widest is how it does at the full width.
func (o Options) sweep(ctx context.Context, widest []Verdict) []Width {
	var widths []Width
	for _, lanes := range grid(o.Setting.Lanes) {
		narrow := o.Setting
		narrow.Lanes = lanes
		w := Width{Lanes: lanes}
		for i, strategy := range o.Strategies {
			verdict := widest[i]
			if lanes < o.Setting.Lanes {
				verdict, _ = judge(ctx, narrow, strategy, o.Seed, sweepRuns(narrow, o.Runs))
			}
			w.Strategies = append(w.Strategies, verdict.share())
		}
		widths = append(widths, w)
	}
	return widths
}

// grid is 1, 2, 3, 5, 7, 10, 20, 30 … up to last.
func grid(last int) []int {
	var widths []int
	for power := 1; power < last; power *= 10 {
		for _, digit := range []int{1, 2, 3, 5, 7} {
			if digit*power < last {
				widths = append(widths, digit*power)
			}
		}
	}
	return append(widths, last)
}

// judge runs one strategy over its seeds and gives the first run as a sample.
func judge(ctx context.Context, s Setting, strategy Strategy, seed uint64, runs int) (Verdict, Outcome) {
	outcomes := make([]Outcome, runs)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range outcomes {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			own := seed + uint64(i)
			outcomes[i] = Once(ctx, s, strategy, Places(s, own), own)
			return nil
		})
	}
	_ = group.Wait() // no run returns an error
	return summarize(strategy, s.Lanes, outcomes), outcomes[0]
}

// Place is where and when a lane runs.
type Place struct {
	// IP is the number of the address that its requests come from.
	IP int
	// Start is when it starts, from when the first may.
	Start time.Duration
}

// Places are those of the lanes, the same for every strategy under one seed: addresses and starts are drawn evenly.
func Places(s Setting, seed uint64) []Place {
	random := rand.New(rand.NewPCG(seed, 1))
	places := make([]Place, s.Lanes)
	for i := range places {
		places[i] = Place{IP: random.IntN(s.Throttle.IPs), Start: time.Duration(random.Float64() * float64(s.Spread))}
	}
	return places
}

// ParseStrategy reads the name of a strategy.
func ParseStrategy(name string) (Strategy, error) {
	if s := Strategy(name); slices.Contains(Strategies(), s) {
		return s, nil
	}
	return "", fmt.Errorf("unknown strategy %q", name)
}
