package prime

import (
	"context"
	"errors"
	"fmt"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/plan"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/store"
)

// skipped is the outcome of an image that is missing and could not be saved, where that may pass.
const skipped = "skipped"

// lookUp ends the task where its entry is there and fit for use.
func (r *run) lookUp(ctx context.Context, t *task) error {
	generation, err := r.present(ctx, t.item, &t.row)
	t.generation = generation
	return err
}

// guard ends the task where the store is known not to let this run save: then nothing is pulled for nothing.
func (r *run) guard(ctx context.Context, t *task) error {
	guard, ok := r.Store.(store.Guard)
	if !ok {
		return nil
	}
	if ok, reason := guard.Writable(ctx); !ok {
		return r.readOnly(t, fmt.Errorf("%s is not in the store, which is %w here: %s", t.item.Key, store.ErrReadOnly, reason))
	}
	return nil
}

// readOnly is what a store that can't be written means for an image that is missing in it.
func (r *run) readOnly(t *task, err error) error {
	if r.OnReadOnly == FailReadOnly {
		return err
	}
	t.row.Source, t.row.Outcome, t.row.Reason = report.Nowhere, skipped, "the store is read-only"
	p := problem(t.item, err)
	p.Severity = report.Warning
	r.log.Add(p)
	return nil
}

// open resolves the image. All images are resolved before any moves, so that a layer which several share is known to be
// wanted until the last of them has it.
func (r *run) open(ctx context.Context, t *task) error {
	pull, err := r.Registry.Pull(ctx, t.item.Pin.Reference, t.item.Platform)
	if err != nil {
		return err
	}
	if err := fits(t.item, pull.Image); err != nil {
		return fmt.Errorf("pulling %s: %w", t.item.Pin.Reference.Familiar(), errors.Join(err, pull.Close()))
	}
	t.pull, t.img = pull, pull.Image
	if r.Recompress != nil {
		t.claim = r.Recompress.Claim(pull.Image)
	}
	if !r.Exposed || !pull.Authenticated {
		return nil
	}
	public, err := r.Registry.Public(ctx, t.item.Pin.Reference)
	if err != nil {
		return fmt.Errorf("asking whether everybody may pull the image: %w", err)
	}
	if !public {
		return errors.New("the image is private and the cache is not: pull requests from forks can read it; use a store of your own (oci:// or dir:), or say allow-private: true")
	}
	return nil
}

// fits holds what came to the type that the pin says. An artifact is only kept for whoever asked for one: in place of an
// image it is a mistake that no lane could load.
func fits(item plan.Item, img image.Image) error {
	err := img.Loadable()
	switch {
	case err != nil && !item.Pin.Artifact:
		return fmt.Errorf("%w; to keep it in the store all the same, say type=artifact", err)
	case err == nil && item.Pin.Artifact:
		return errors.New("a container image, and type=artifact is for what is none: leave it out")
	default:
		return nil
	}
}

// move takes the image from the registry into the store, and makes sure that it can be found there.
func (r *run) move(ctx context.Context, t *task) error {
	track := r.Progress.Begin(t.item.Name, t.img.Size())
	defer track.End()
	err := r.save(ctx, t, track)
	t.row.Attempts, t.row.Size = t.pull.Attempts(), t.img.Size()
	if err = errors.Join(err, t.close()); errors.Is(err, store.ErrReadOnly) {
		return r.readOnly(t, err)
	}
	if err != nil {
		return err
	}
	if err := r.prove(ctx, t); err != nil {
		return fmt.Errorf("looking %s up after it was saved: %w", t.item.Key, err)
	}
	t.row.Source, t.row.Outcome, t.row.Digest = report.Registry, "saved", t.img.Root().Digest.String()
	t.row.Reason = t.gain
	return nil
}

// prove finds what was saved in the store, unless the store has done that itself.
func (r *run) prove(ctx context.Context, t *task) error {
	if proving, ok := r.Store.(store.Proving); ok && proving.ProvesSaves() {
		return nil
	}
	entry, err := r.Store.Stat(ctx, t.item.Key)
	if err == nil && entry.Generation < t.generation {
		err = fmt.Errorf("generation %d is there, %d was saved", entry.Generation, t.generation)
	}
	return err
}

// save saves the image. How its layers come to hand is between the store, which knows what it needs of them and when, and
// where they come from.
func (r *run) save(ctx context.Context, t *task, track report.Track) error {
	return r.Store.Save(ctx, store.Generation(t.item.Key, t.generation), t.img.Observe(track.Add))
}

// problem is the one error of an image that prime could not have.
func problem(item plan.Item, err error) report.Problem {
	p := report.Problem{
		Severity: report.Error, Kind: "prime", Image: item.Name, Message: fmt.Sprintf("%s: %s", item.Name, report.Line(err)),
		File: item.Pin.File, Line: item.Pin.Line, Column: item.Pin.Column,
	}
	switch {
	case errors.Is(err, store.ErrReadOnly):
		p.Kind = "read-only"
	case errors.Is(err, image.ErrVerify):
		p.Kind = "verify"
	case errors.Is(err, context.Canceled):
		p.Kind = "interrupted"
	}
	return p
}
