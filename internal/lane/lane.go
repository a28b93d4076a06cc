// Package lane owns the use case of a matrix job: every image it needs, from the store into its targets. A lane is
// best effort: whatever goes wrong in the environment becomes one problem that names the image and the cause, and a
// pull where that can help. It does not know HTTP, tar, argv or the runner.
package lane

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/pullonce/pullonce/internal/cachekey"
	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/plan"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/target"
)

// Concurrency is how many images are loaded at a time where nobody says: one for each core. Daemons unpack the layers of one
// image one after the other, so that only several images keep several cores busy. More than that get in each other's way: on
// two cores, four images at a time took a tenth less than two in memory, and a quarter more on a disk, where file systems
// are. Below two, a daemon has nothing to unpack while it is asked and told about an image; above four, Docker's three
// downloads at a time and our memory are what ends first.
func Concurrency(cores int) int { return min(max(cores, 2), 4) }

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
	// Salt and Format are those of the keys that prime saved under.
	Salt   string
	Format cachekey.Format
	Store  store.Store
	// StoreDown, where it is set, is why there is no store: every image is then a miss, which is said once.
	StoreDown error
	Registry  Registry
	Targets   []Target
	// OnMiss is what to do about an image that the store can't give; "" is Pull.
	OnMiss OnMiss
	// Concurrency is how many images are loaded at a time; 0 is Concurrency of this machine.
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
	jobs := r.jobs(ctx)
	stop := r.prepare(ctx, jobs)
	rows := r.load(ctx, jobs)
	stop()
	r.tellOutage()
	r.warnOfDigests()
	return report.Report{
		Mode: "load", Result: r.result(rows), Images: rows, Problems: r.log.Problems(), Elapsed: r.now().Sub(r.started),
	}
}

type run struct {
	Options
	log     report.Log
	now     func() time.Time
	started time.Time
	digests digestList
	outage  outage
}

func newRun(o Options) *run {
	if o.Concurrency <= 0 {
		o.Concurrency = Concurrency(runtime.NumCPU())
	}
	if o.Progress == nil {
		o.Progress = report.Silent{}
	}
	if o.OnMiss == "" {
		o.OnMiss = Pull
	}
	o.System = cmp.Or(o.System, runtime.GOOS)
	r := &run{Options: o, now: o.Now, outage: outage{cause: o.StoreDown}}
	if r.now == nil {
		r.now = time.Now
	}
	r.started = r.now()
	return r
}

// job is one image that goes into one target.
type job struct {
	item   plan.Item
	target Target
	skip   string // why there is nothing to do, or ""

	row      *report.Image
	err      error  // why the image is not in the target
	cause    error  // why it was pulled instead
	replaced string // another image that had its name
}

// jobs asks each target for its platform and plans the images for it. A target that is not there is one problem, not
// one an image, and one that no image is for is not asked.
func (r *run) jobs(ctx context.Context) []job {
	var jobs []job
	if len(r.Pins) == 0 {
		return nil
	}
	answers := r.ask(ctx)
	for i, t := range r.Targets {
		p, err, skip := answers[i].platform, answers[i].err, ""
		if err != nil {
			p, skip = platform.Host(), "target unavailable"
		}
		items := Items(r.Pins, p, r.Salt, r.Format)
		if images := loadable(items); err != nil && len(images) > 0 {
			r.unavailable(t, images, err)
		}
		r.passedBy(p)
		for _, item := range items {
			j := job{item: item, target: t, skip: skip}
			if item.Pin.Artifact {
				j.skip = storedOnly
			}
			jobs = append(jobs, j)
		}
	}
	r.tellArtifacts(jobs)
	return jobs
}

// storedOnly is why a lane passes an artifact by.
const storedOnly = "an artifact is stored, not loaded"

// loadable are the items that are images.
func loadable(items []plan.Item) []plan.Item {
	return slices.DeleteFunc(slices.Clone(items), func(item plan.Item) bool { return item.Pin.Artifact })
}

// Items are the items of a lane: each pin for the target's own platform. A pin that is for other platforms only is not
// for this lane.
func Items(pins []pin.Pin, p platform.Platform, salt string, format cachekey.Format) []plan.Item {
	var own []pin.Pin
	for _, candidate := range pins {
		if len(candidate.Platforms) == 0 || contains(candidate.Platforms, p) {
			candidate.Platforms = nil
			own = append(own, candidate)
		}
	}
	return plan.Make(own, plan.Options{Platforms: []platform.Platform{p}, Salt: salt, Format: format}).Items
}

func contains(platforms []platform.Platform, p platform.Platform) bool {
	for _, candidate := range platforms {
		if platform.Normalize(candidate) == p {
			return true
		}
	}
	return false
}
