package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/fanout"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/target"
)

// batch is the jobs of one image: it is read once for all its targets.
type batch struct {
	*run
	jobs    []*job
	started time.Time
}

// load does the jobs, some images at a time, and gives their rows in the order of the targets and the pin list.
func (r *run) load(ctx context.Context, jobs []job) []report.Image {
	rows := make([]report.Image, len(jobs))
	var order []string
	batches := map[string]*batch{}
	for i := range jobs {
		j := &jobs[i]
		j.row = &rows[i]
		b, ok := batches[j.item.Key]
		if !ok {
			b = &batch{run: r}
			batches[j.item.Key] = b
			order = append(order, j.item.Key)
		}
		b.jobs = append(b.jobs, j)
	}
	var group errgroup.Group
	group.SetLimit(r.Concurrency)
	for _, key := range order {
		group.Go(func() error {
			batches[key].load(ctx)
			return nil
		})
	}
	_ = group.Wait() // no batch returns an error: its rows hold it
	return rows
}

// load takes one image through the stages: open the entry, load it into every target, and where the store has failed,
// pull it for those that went without.
func (b *batch) load(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx) // an opened entry stays open until its context ends
	defer cancel()
	b.started = b.now()
	for _, j := range b.jobs {
		*j.row = j.newRow()
		j.row.Started = b.started.Sub(b.run.started)
	}
	open := slices.DeleteFunc(slices.Clone(b.jobs), func(j *job) bool { return j.skip != "" })
	b.from(ctx, report.Cache, open)
	lacking := slices.DeleteFunc(open, func(j *job) bool { return !b.helpedByPull(ctx, j) })
	if len(lacking) > 0 {
		b.pull(ctx, lacking)
	}
	b.tell()
	for _, j := range b.jobs {
		b.Progress.Done(*j.row)
	}
}

// newRow is what is known of a job before anything is done.
func (j *job) newRow() report.Image {
	row := report.Image{
		Name: j.item.Name, Reference: j.item.Pin.Reference.String(), Platform: j.item.Platform.String(), Key: j.item.Key,
		Target: j.target.Name, Source: report.Nowhere,
	}
	if j.skip != "" {
		row.Outcome, row.Reason = "skipped", j.skip
	}
	if j.item.Pin.Artifact {
		row.Source = report.Stored
	}
	return row
}

// storeFault marks the causes for which a pull helps: what the target says is not among them.
type storeFault struct{ error }

func (f storeFault) Unwrap() error { return f.error }

func isStoreFault(err error) bool {
	_, ok := errors.AsType[storeFault](err)
	return ok || errors.Is(err, image.ErrRead)
}

func (b *batch) helpedByPull(ctx context.Context, j *job) bool {
	return isStoreFault(j.err) && b.OnMiss == Pull && j.target.Target != (target.None{}) && ctx.Err() == nil
}

// pull is the second try of those that the store has failed.
func (b *batch) pull(ctx context.Context, lacking []*job) {
	for _, j := range lacking {
		j.cause, j.err = j.err, nil
	}
	b.from(ctx, report.Registry, lacking)
	for _, j := range lacking {
		if j.err != nil {
			j.err = fmt.Errorf("%w; pulling it instead: %w", j.cause, j.err)
		}
	}
}

// from loads the image of jobs from one source, into all their targets at once. Each job's err is what came of it.
func (b *batch) from(ctx context.Context, source report.Source, jobs []*job) {
	if len(jobs) == 0 {
		return
	}
	img, attempts, err := b.get(ctx, source, jobs[0])
	if err == nil {
		fanout.Each(ctx, img, len(jobs), func(i int, share image.Image) {
			jobs[i].err = b.into(ctx, jobs[i], share, source)
		})
	}
	for _, j := range jobs {
		if err != nil {
			j.err = err
		}
		j.row.Attempts, j.row.Elapsed = attempts(), b.now().Sub(b.started)
	}
}

// get opens the entry, or pulls the image as prime would have. attempts counts the tries against the registry so far.
func (b *batch) get(ctx context.Context, source report.Source, j *job) (img image.Image, attempts func() int, err error) {
	attempts = func() int { return 0 }
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("internal error: %v", v)
		}
	}()
	if source == report.Cache {
		img, err = b.entry(ctx, j)
		return img, attempts, err
	}
	pull, err := b.Registry.Pull(ctx, j.item.Pin.Reference, j.item.Platform)
	if err != nil {
		return img, attempts, err
	}
	return pull.Image, pull.Attempts, pull.Image.Loadable()
}

// entry opens the entry and holds it to the pin.
func (b *batch) entry(ctx context.Context, j *job) (image.Image, error) {
	if err := b.outage.known(); err != nil {
		return image.Image{}, storeFault{err}
	}
	img, err := b.Store.Open(ctx, j.item.Key)
	if err != nil {
		return image.Image{}, storeFault{b.outage.judge(ctx, err)}
	}
	if err := img.Is(j.item.Pin.Reference, j.item.Platform); err != nil {
		return image.Image{}, storeFault{fmt.Errorf("opening %s: %w", j.item.Key, err)}
	}
	if err := img.Loadable(); err != nil {
		return image.Image{}, storeFault{fmt.Errorf("opening %s: %w: %w", j.item.Key, image.ErrVerify, err)}
	}
	return img, nil
}

// into loads img into the target of a job and writes down what that came to.
func (b *batch) into(ctx context.Context, j *job, img image.Image, from report.Source) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("internal error: %v", v)
		}
		j.row.Elapsed = b.now().Sub(b.started)
	}()
	track := b.Progress.Begin(j.item.Name, img.Size())
	defer track.End()
	result, err := j.to().Load(ctx, img.Observe(track.Add))
	if err != nil {
		return fmt.Errorf("loading into %s: %w", j.target.Name, err)
	}
	j.row.Source, j.row.Outcome, j.row.Size, j.row.Digest = from, string(result.Outcome), img.Size(), img.Root().Digest.String()
	if result.Outcome == target.Present || result.Outcome == target.Tagged {
		j.row.Source = report.Present
	}
	j.replaced = result.Replaced
	b.digests.add(j.target.Name, result.Unresolvable)
	return nil
}

// to is the target of a job, or the part of it that the pin is for.
func (j *job) to() target.Target {
	if selector, ok := j.target.Target.(target.Selector); ok && len(j.item.Pin.Nodes) > 0 {
		return selector.Only(j.item.Pin.Nodes)
	}
	return j.target.Target
}
