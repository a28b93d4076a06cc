// Package prime owns the use case that fills the store: every pin, once, verified, or a loud failure. It does not know
// HTTP, tar or the runner.
package prime

import (
	"context"
	"errors"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/recompress"
	"github.com/pullonce/pullonce/internal/plan"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/store"
)

// DefaultConcurrency is how many images move at a time. Pulls of one host are paced together in any case.
const DefaultConcurrency = 4

// DefaultMaxAge is how old the entry of a tag pin may be before the registry is asked whether the tag has moved.
const DefaultMaxAge = 7 * 24 * time.Hour

// Registry is what prime asks of a registry client. Safe for concurrent use.
type Registry interface {
	// Pull resolves ref for p; the layers of its image are read when asked for.
	Pull(ctx context.Context, ref reference.Reference, p platform.Platform) (*registry.Pull, error)
	// Digest is what the registry resolves ref to now, at the cost of one HEAD.
	Digest(ctx context.Context, ref reference.Reference) (digest.Digest, error)
	// Public says whether the registry serves ref to anybody.
	Public(ctx context.Context, ref reference.Reference) (bool, error)
}

var _ Registry = (*registry.Client)(nil)

// OnReadOnly is what prime does about an image that is missing in a store that does not let this run save.
type OnReadOnly string

// The answers to a store that can't be written.
const (
	FailReadOnly OnReadOnly = "fail" // an error; the run fails
	WarnReadOnly OnReadOnly = "warn" // a warning; nothing is pulled for nothing
)

// Options say what is primed, from where and to where.
type Options struct {
	Items    []plan.Item
	Store    store.Store
	Registry Registry
	// Concurrency is how many images move at a time; 0 is DefaultConcurrency.
	Concurrency int
	// Recompress compresses layers anew on their way, as the keys of Items must say; nil keeps them as the registry has them.
	Recompress *recompress.Spool
	// MaxAge is how old the entry of a tag pin may be before one HEAD asks whether the tag has moved; 0 asks every time.
	MaxAge time.Duration
	// VerifyFull reads entries that are there again, to the last byte.
	VerifyFull bool
	// OnReadOnly is what to do about a store that can't be written; "" is FailReadOnly.
	OnReadOnly OnReadOnly
	// Exposed says that people without access to private images can read the store. Such images are then refused.
	Exposed bool
	// Progress is told how images move; nil is silent.
	Progress report.Progress
	// Now is the clock that ages are taken by; nil is time.Now.
	Now func() time.Time
}

// Run primes every item and reports each. The result is Failure unless every image is in the store at the end, or could
// not be put there in a way that OnReadOnly lets pass.
func Run(ctx context.Context, o Options) report.Report {
	r := newRun(o)
	tasks := r.tasks()
	r.each(tasks, func(t *task) error { return r.lookUp(ctx, t) })
	r.each(tasks, func(t *task) error { return r.guard(ctx, t) })
	r.each(tasks, func(t *task) error { return r.open(ctx, t) })
	r.each(tasks, func(t *task) error { return r.deliver(ctx, t) })
	rows := r.rows(tasks)
	return report.Report{
		Mode: "prime", Result: r.result(rows), Images: rows, Problems: r.log.Problems(), Elapsed: r.now().Sub(r.started),
	}
}

type run struct {
	Options
	log     report.Log
	now     func() time.Time
	started time.Time
}

func newRun(o Options) *run {
	if o.Concurrency <= 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.Progress == nil {
		o.Progress = report.Silent{}
	}
	if o.OnReadOnly == "" {
		o.OnReadOnly = FailReadOnly
	}
	r := &run{Options: o, now: o.Now}
	if r.now == nil {
		r.now = time.Now
	}
	r.started = r.now()
	return r
}

// task is one item on its way through the stages. It is done when its row has an outcome; later stages pass it by.
type task struct {
	item       plan.Item
	row        report.Image
	generation int // to save as
	pull       *registry.Pull
	claim      *recompress.Claim // nil where layers stay as they are
	img        image.Image       // what is saved
	gain       string            // what recompressing it came to
}

// close says that no layer of the image will be read any more.
func (t *task) close() error {
	err := t.pull.Close()
	if t.claim != nil {
		err = errors.Join(err, t.claim.Close())
	}
	return err
}

func (r *run) tasks() []*task {
	tasks := make([]*task, len(r.Items))
	for i, item := range r.Items {
		tasks[i] = &task{item: item, row: report.Image{
			Name: item.Name, Reference: item.Pin.Reference.String(), Platform: item.Platform.String(), Key: item.Key,
			Digest: item.Pin.Reference.Digest().String(),
		}}
	}
	return tasks
}

// each takes the tasks that are not done through one stage, some at a time. A stage's error ends its task.
func (r *run) each(tasks []*task, stage func(*task) error) {
	var group errgroup.Group
	group.SetLimit(r.Concurrency)
	for _, t := range tasks {
		if t.row.Outcome != "" {
			continue
		}
		group.Go(func() error {
			started := r.now()
			if err := stage(t); err != nil {
				t.row.Source, t.row.Outcome = report.Nowhere, "failed"
				r.log.Add(problem(t.item, err))
			}
			ended := r.now()
			t.row.Elapsed += ended.Sub(started)
			t.row.Started = ended.Sub(r.started) - t.row.Elapsed
			if t.row.Outcome != "" {
				r.Progress.Done(t.row)
			}
			return nil
		})
	}
	_ = group.Wait() // no task returns an error: its row holds it
}

func (r *run) rows(tasks []*task) []report.Image {
	rows := make([]report.Image, len(tasks))
	for i, t := range tasks {
		rows[i] = t.row
	}
	return rows
}

// result is the word for the whole run.
func (r *run) result(rows []report.Image) report.Result {
	result := report.Success
	for _, row := range rows {
		if row.Source != report.Nowhere {
			continue
		}
		if row.Outcome != skipped {
			return report.Failure
		}
		result = report.Degraded
	}
	return result
}
