// Package lane owns the use case of a matrix job: every image it needs, from the store into its targets. A lane is
// best effort: whatever goes wrong in the environment becomes one problem that names the image and the cause, and a
// pull where that can help. It does not know HTTP, tar, argv or the runner.
package lane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/plan"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/target"
)

// DefaultConcurrency is how many images are loaded at a time. Daemons unpack the layers of one image one after the
// other, so that only several images keep several cores busy.
const DefaultConcurrency = 2

// OnMiss is what a lane does about an image that the store can't give.
type OnMiss string

// The answers to a miss.
const (
	Pull OnMiss = "pull" // a warning, and a pull from the registry
	Warn OnMiss = "warn" // a warning
	Fail OnMiss = "fail" // an error; the run fails
)

// Registry is what a lane asks of a registry client when the store has failed it. Safe for concurrent use.
type Registry interface {
	// Pull resolves ref for p; the layers of its image are read when asked for.
	Pull(ctx context.Context, ref reference.Reference, p platform.Platform) (*registry.Pull, error)
}

var _ Registry = (*registry.Client)(nil)

// Target is a target and how the user spells it.
type Target struct {
	Name string
	target.Target
}

// Options say what is loaded, from where and into what.
type Options struct {
	Pins []pin.Pin
	// Salt is the key-salt that prime used.
	Salt  string
	Store store.Store
	// StoreDown, where it is set, is why there is no store: every image is then a miss, which is said once.
	StoreDown error
	Registry  Registry
	Targets   []Target
	// OnMiss is what to do about an image that the store can't give; "" is Pull.
	OnMiss OnMiss
	// Concurrency is how many images are loaded at a time; 0 is DefaultConcurrency.
	Concurrency int
	// Progress is told how images move; nil is silent.
	Progress report.Progress
	// Now is the clock that times are taken by; nil is time.Now.
	Now func() time.Time
	// System is the operating system of the lane, as runtime.GOOS has it; "" is this one.
	System string
}

// Run loads every pin into every target and reports each. The result is Degraded where something had to be warned of,
// and Failure only for OnMiss Fail.
func Run(ctx context.Context, o Options) report.Report {
	r := newRun(o)
	started := r.now()
	jobs := r.jobs(ctx)
	if r.StoreDown != nil {
		r.storeDown()
	}
	rows := r.load(ctx, jobs)
	r.warnOfDigests()
	return report.Report{
		Mode: "load", Result: r.result(rows), Images: rows, Problems: r.log.Problems(), Elapsed: r.now().Sub(started),
	}
}

type run struct {
	Options
	log     report.Log
	now     func() time.Time
	digests digestList
}

func newRun(o Options) *run {
	if o.Concurrency <= 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.Progress == nil {
		o.Progress = report.Silent{}
	}
	if o.OnMiss == "" {
		o.OnMiss = Pull
	}
	o.System = cmp.Or(o.System, runtime.GOOS)
	r := &run{Options: o, now: o.Now}
	if r.now == nil {
		r.now = time.Now
	}
	return r
}

// job is one image that goes into one target.
type job struct {
	item   plan.Item
	target Target
	skip   string // why there is nothing to do, or ""
}

// jobs asks each target for its platform and plans the images for it. A target that is not there is one problem, not
// one an image.
func (r *run) jobs(ctx context.Context) []job {
	var jobs []job
	for _, t := range r.Targets {
		p, err := t.Platform(ctx)
		skip := ""
		if err != nil {
			p, skip = platform.Host(), "target unavailable"
			r.unavailable(t, err)
		}
		for _, item := range Items(r.Pins, p, r.Salt) {
			jobs = append(jobs, job{item: item, target: t, skip: skip})
		}
	}
	return jobs
}

// Items are the items of a lane: each pin for the target's own platform. A pin that is for other platforms only is not
// for this lane.
func Items(pins []pin.Pin, p platform.Platform, salt string) []plan.Item {
	var own []pin.Pin
	for _, candidate := range pins {
		if len(candidate.Platforms) == 0 || contains(candidate.Platforms, p) {
			candidate.Platforms = nil
			own = append(own, candidate)
		}
	}
	return plan.Make(own, plan.Options{Platforms: []platform.Platform{p}, Salt: salt}).Items
}

func contains(platforms []platform.Platform, p platform.Platform) bool {
	for _, candidate := range platforms {
		if platform.Normalize(candidate) == p {
			return true
		}
	}
	return false
}

// load does the jobs, some at a time, and gives their rows in the order of the pin list.
func (r *run) load(ctx context.Context, jobs []job) []report.Image {
	rows := make([]report.Image, len(jobs))
	var group errgroup.Group
	group.SetLimit(r.Concurrency)
	for i, j := range jobs {
		group.Go(func() error {
			rows[i] = r.image(ctx, j)
			r.Progress.Done(rows[i])
			return nil
		})
	}
	_ = group.Wait() // no row returns an error: it holds it
	return rows
}

// image takes one job through the stages: open the entry, load it, and where the store has failed, pull.
func (r *run) image(ctx context.Context, j job) (row report.Image) {
	ctx, cancel := context.WithCancel(ctx) // an opened entry stays open until its context ends
	defer cancel()
	started := r.now()
	row = report.Image{
		Name: j.item.Name, Reference: j.item.Pin.Reference.String(), Platform: j.item.Platform.String(), Key: j.item.Key,
		Target: j.target.Name, Source: report.Nowhere,
	}
	defer func() {
		if v := recover(); v != nil {
			r.failed(j, &row, fmt.Errorf("internal error: %v", v))
		}
		row.Elapsed = r.now().Sub(started)
	}()
	if j.skip != "" {
		row.Outcome, row.Reason = "skipped", j.skip
		return row
	}
	cause := r.fromStore(ctx, j, &row)
	if cause == nil {
		return row
	}
	if !isStoreFault(cause) || r.OnMiss != Pull || j.target.Target == (target.None{}) || ctx.Err() != nil {
		r.failed(j, &row, cause)
		return row
	}
	if err := r.fromRegistry(ctx, j, &row); err != nil {
		r.failed(j, &row, fmt.Errorf("%w; pulling it instead: %w", cause, err))
		return row
	}
	r.pulledInstead(j, cause)
	return row
}

// storeFault marks the causes for which a pull helps: what the target says is not among them.
type storeFault struct{ error }

func (f storeFault) Unwrap() error { return f.error }

func isStoreFault(err error) bool {
	_, ok := errors.AsType[storeFault](err)
	return ok || errors.Is(err, image.ErrRead)
}

// fromStore opens the entry, holds it to the pin, and loads it.
func (r *run) fromStore(ctx context.Context, j job, row *report.Image) error {
	if r.StoreDown != nil {
		return storeFault{r.StoreDown}
	}
	img, err := r.Store.Open(ctx, j.item.Key)
	if err != nil {
		return storeFault{fmt.Errorf("opening %s: %w", j.item.Key, err)}
	}
	if err := img.Is(j.item.Pin.Reference, j.item.Platform); err != nil {
		return storeFault{fmt.Errorf("opening %s: %w", j.item.Key, err)}
	}
	return r.into(ctx, j, img, report.Cache, row)
}

// fromRegistry pulls the image as prime would have and loads it.
func (r *run) fromRegistry(ctx context.Context, j job, row *report.Image) error {
	pull, err := r.Registry.Pull(ctx, j.item.Pin.Reference, j.item.Platform)
	if err != nil {
		return err
	}
	defer func() { row.Attempts = pull.Attempts() }()
	return r.into(ctx, j, pull.Image, report.Registry, row)
}

// into loads img and writes down what that came to.
func (r *run) into(ctx context.Context, j job, img image.Image, from report.Source, row *report.Image) error {
	track := r.Progress.Begin(j.item.Name, img.Size())
	defer track.End()
	result, err := j.target.Load(ctx, img.Observe(track.Add))
	if err != nil {
		return fmt.Errorf("loading into %s: %w", j.target.Name, err)
	}
	row.Source, row.Outcome, row.Size, row.Digest = from, string(result.Outcome), img.Size(), img.Root().Digest.String()
	if result.Outcome == target.Present || result.Outcome == target.Tagged {
		row.Source = report.Present
	}
	if result.Replaced != "" {
		r.log.Add(report.Problem{
			Severity: report.Notice, Kind: "replaced", Image: j.item.Name,
			Message: fmt.Sprintf("%s: %s had another image under this name, %s; it was replaced", j.item.Name, j.target.Name, result.Replaced),
		})
	}
	r.digests.add(j.target.Name, result.Unresolvable)
	return nil
}
