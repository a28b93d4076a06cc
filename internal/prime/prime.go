// Package prime owns the use case that fills the store: every pin, once, verified, or a loud failure. It does not know
// HTTP, tar or the runner.
package prime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
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
}

var _ Registry = (*registry.Client)(nil)

// Options say what is primed, from where and to where.
type Options struct {
	Items    []plan.Item
	Store    store.Store
	Registry Registry
	// Concurrency is how many images move at a time; 0 is DefaultConcurrency.
	Concurrency int
	// MaxAge is how old the entry of a tag pin may be before one HEAD asks whether the tag has moved; 0 asks every time.
	MaxAge time.Duration
	// VerifyFull reads entries that are there again, to the last byte.
	VerifyFull bool
	// Progress is told how images move; nil is silent.
	Progress report.Progress
	// Now is the clock that ages are taken by; nil is time.Now.
	Now func() time.Time
}

// Run primes every item and reports each. The result is Failure unless every image is in the store at the end.
func Run(ctx context.Context, o Options) report.Report {
	r := newRun(o)
	started := r.now()
	rows := make([]report.Image, len(o.Items))
	var group errgroup.Group
	group.SetLimit(r.Concurrency)
	for i, item := range o.Items {
		group.Go(func() error {
			rows[i] = r.image(ctx, item)
			r.Progress.Done(rows[i])
			return nil
		})
	}
	_ = group.Wait() // no row returns an error: it holds it
	return report.Report{
		Mode: "prime", Result: resultOf(rows), Images: rows, Problems: r.log.Problems(), Elapsed: r.now().Sub(started),
	}
}

type run struct {
	Options
	log report.Log
	now func() time.Time
}

func newRun(o Options) *run {
	if o.Concurrency <= 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.Progress == nil {
		o.Progress = report.Silent{}
	}
	r := &run{Options: o, now: o.Now}
	if r.now == nil {
		r.now = time.Now
	}
	return r
}

func resultOf(rows []report.Image) report.Result {
	for _, row := range rows {
		if row.Source == report.Nowhere {
			return report.Failure
		}
	}
	return report.Success
}

// image takes one item through the stages: is it there and fit for use, else pull it, save it, and look it up.
func (r *run) image(ctx context.Context, item plan.Item) report.Image {
	started := r.now()
	row := report.Image{
		Name: item.Name, Reference: item.Pin.Reference.String(), Platform: item.Platform.String(), Key: item.Key,
		Digest: item.Pin.Reference.Digest().String(),
	}
	generation, err := r.present(ctx, item, &row)
	if err == nil && row.Source == "" {
		err = r.pull(ctx, item, generation, &row)
	}
	if err != nil {
		row.Source, row.Outcome = report.Nowhere, "failed"
		r.log.Add(problem(item, err))
	}
	row.Elapsed = r.now().Sub(started)
	return row
}

// pull moves the image from the registry into the store and makes sure that it can be found there.
func (r *run) pull(ctx context.Context, item plan.Item, generation int, row *report.Image) error {
	pull, err := r.Registry.Pull(ctx, item.Pin.Reference, item.Platform)
	if err != nil {
		return err
	}
	track := r.Progress.Begin(item.Name, pull.Image.Size())
	defer track.End()
	err = r.Store.Save(ctx, store.Generation(item.Key, generation), pull.Image.Observe(track.Add))
	row.Attempts, row.Size = pull.Attempts(), pull.Image.Size()
	if err != nil {
		return fmt.Errorf("saving %s: %w", item.Key, err)
	}
	entry, err := r.Store.Stat(ctx, item.Key)
	if err != nil {
		return fmt.Errorf("looking %s up after it was saved: %w", item.Key, err)
	}
	if entry.Generation < generation {
		return fmt.Errorf("looking %s up after it was saved: generation %d is there, %d was saved", item.Key, entry.Generation, generation)
	}
	row.Source, row.Outcome, row.Digest = report.Registry, "saved", pull.Image.Root().Digest.String()
	return nil
}

// problem is the one error of an image that prime could not have.
func problem(item plan.Item, err error) report.Problem {
	p := report.Problem{
		Severity: report.Error, Kind: "prime", Image: item.Name, Message: fmt.Sprintf("%s: %s", item.Name, report.Line(err)),
		File: item.Pin.File, Line: item.Pin.Line, Column: item.Pin.Column,
	}
	switch {
	case errors.Is(err, image.ErrVerify):
		p.Kind = "verify"
	case errors.Is(err, context.Canceled):
		p.Kind = "interrupted"
	}
	return p
}
