package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/cachekey"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/fanout"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/target"
)

// maxOpen is how many entries are open at a time, on their way or in a queue for it: all of nearly every lane. Each
// keeps what was read to open it, half a megabyte at most as a rule.
const maxOpen = 16

// load does the jobs and gives their rows in the order of the targets and the pin list. All entries are opened first:
// what that tells decides the order of what follows. What the store can't give is pulled, and holds up nothing that it
// can.
func (r *run) load(ctx context.Context, jobs []job) []report.Image {
	rows := make([]report.Image, len(jobs))
	batches := r.batches(jobs, rows)
	loads := newQueue(r.Concurrency, min(len(batches), maxOpen), func(waiting []*ticket) { r.expect(ctx, waiting) })
	loads.bases.matter = len(batches) > 1 && r.Concurrency > 1 && r.unpacksTwice(ctx)
	pulls := newQueue(r.Concurrency, 0, func([]*ticket) {})
	var loading errgroup.Group
	loading.SetLimit(maxOpen)
	var pulling sync.WaitGroup
	for _, b := range batches {
		loading.Go(func() error {
			lacking := b.load(ctx, loads)
			if len(lacking) == 0 {
				b.done()
				return nil
			}
			pulling.Go(func() {
				b.pull(ctx, pulls, lacking)
				b.done()
			})
			return nil
		})
	}
	_ = loading.Wait() // no batch returns an error: its rows hold it
	pulling.Wait()
	for _, b := range batches {
		b.tell()
	}
	return rows
}

// batch is the jobs of one image: it is read once for all its targets.
type batch struct {
	*run
	jobs     []*job
	started  time.Time
	idle     time.Duration // what of the time since then went by in queues
	problems []report.Problem
}

// opened is an image that is there for some jobs.
type opened struct {
	img  image.Image
	jobs []*job
}

// batches are the jobs by their images, in the order of these.
func (r *run) batches(jobs []job, rows []report.Image) []*batch {
	var batches []*batch
	byKey := map[string]*batch{}
	for i := range jobs {
		j := &jobs[i]
		j.row = &rows[i]
		b, ok := byKey[j.item.Key]
		if !ok {
			b = &batch{run: r}
			byKey[j.item.Key] = b
			batches = append(batches, b)
		}
		b.jobs = append(b.jobs, j)
	}
	return batches
}

// load takes the image from the store into every target, and says for which jobs a pull would help.
func (b *batch) load(ctx context.Context, q *queue) (lacking []*job) {
	ctx, cancel := context.WithCancel(ctx) // an opened entry stays open until its context ends
	defer cancel()
	b.started = b.now()
	for _, j := range b.jobs {
		*j.row = j.newRow()
		b.clock(j)
	}
	open := slices.DeleteFunc(slices.Clone(b.jobs), func(j *job) bool { return j.skip != "" })
	if len(open) == 0 {
		q.pass()
		return nil
	}
	img, err := b.entry(ctx, open[0])
	if err != nil {
		q.pass()
	} else {
		err = b.inTurn(ctx, q, opened{img, open}, func(unpacked func(int)) error {
			b.send(ctx, img, report.Cache, open, unpacked)
			return nil
		})
	}
	b.fail(open, err)
	return slices.DeleteFunc(open, func(j *job) bool { return !b.helpedByPull(ctx, j) })
}

// pull is the second try of those that the store has failed.
func (b *batch) pull(ctx context.Context, q *queue, lacking []*job) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, j := range lacking {
		j.cause, j.err = j.err, nil
	}
	attempts := func() int { return 0 }
	err := b.inTurn(ctx, q, opened{}, func(func(int)) (err error) {
		var img image.Image
		if img, attempts, err = b.pulled(ctx, lacking[0]); err == nil {
			b.send(ctx, img, report.Registry, lacking, func(int) {})
		}
		return err
	})
	b.fail(lacking, err)
	for _, j := range lacking {
		j.row.Attempts = attempts()
		if j.err != nil {
			j.err = fmt.Errorf("%w; pulling it instead: %w", j.cause, j.err)
		}
	}
}

// done settles the rows.
func (b *batch) done() {
	for _, j := range b.jobs {
		b.settle(j)
		b.Progress.Done(*j.row)
	}
}

// inTurn does f when it is the turn of o. f can tell how many of its first layers are unpacked.
func (b *batch) inTurn(ctx context.Context, q *queue, o opened, f func(unpacked func(layers int)) error) error {
	since := b.now()
	t, err := q.enter(ctx, o)
	b.idle += b.now().Sub(since)
	if err != nil {
		return err
	}
	defer q.leave(t)
	return f(func(layers int) { q.unpacked(t, layers) })
}

// send loads img into the targets of all jobs at once. Each job's err is what came of it. Of several targets that can tell what
// is unpacked none is asked: the others may not be so far.
func (b *batch) send(ctx context.Context, img image.Image, from report.Source, jobs []*job, unpacked func(layers int)) {
	tellers := 0
	for _, j := range jobs {
		if _, ok := j.target.Target.(target.Teller); ok {
			tellers++
		}
	}
	if tellers > 1 {
		unpacked = func(int) {}
	}
	fanout.Each(ctx, img, len(jobs), func(i int, share image.Image) {
		jobs[i].err = b.into(ctx, jobs[i], share, from, unpacked)
	})
}

// fail gives err, if it is one, to all jobs.
func (b *batch) fail(jobs []*job, err error) {
	if err == nil {
		return
	}
	for _, j := range jobs {
		j.err = err
		b.clock(j)
	}
}

// clock notes how long the job has taken so far, without what it spent in queues.
func (b *batch) clock(j *job) {
	ended := b.now()
	j.row.Elapsed = ended.Sub(b.started) - b.idle
	j.row.Started = ended.Sub(b.run.started) - j.row.Elapsed
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
	return (isStoreFault(j.err) || errors.Is(j.err, target.ErrRecompressed)) && b.OnMiss == Pull && j.target.Target != (target.None{}) && ctx.Err() == nil
}

// entry opens the entry and holds it to the pin.
func (b *batch) entry(ctx context.Context, j *job) (img image.Image, err error) {
	defer recovered(&err)
	if err := b.outage.known(); err != nil {
		return image.Image{}, storeFault{err}
	}
	if img, err = b.Store.Open(ctx, j.item.Key); err != nil {
		return image.Image{}, storeFault{b.outage.judge(ctx, err)}
	}
	if err := img.Is(j.item.Pin.Reference, j.item.Platform); err != nil {
		return image.Image{}, storeFault{fmt.Errorf("opening %s: %w", j.item.Key, err)}
	}
	if err := b.fits(img); err != nil {
		return image.Image{}, storeFault{fmt.Errorf("opening %s: %w: %w", j.item.Key, image.ErrVerify, err)}
	}
	return img, nil
}

// fits refuses what prime never saves under the lane's keys.
func (r *run) fits(img image.Image) error {
	if img.Recompressed() && r.Format == cachekey.V1 {
		return errors.New("its layers are not the registry's own, and its key says that they are")
	}
	return img.Loadable()
}

// pulled is the image as the registry has it. attempts counts the tries so far.
func (b *batch) pulled(ctx context.Context, j *job) (img image.Image, attempts func() int, err error) {
	defer recovered(&err)
	attempts = func() int { return 0 }
	pull, err := b.Registry.Pull(ctx, j.item.Pin.Reference, j.item.Platform)
	if err != nil {
		return image.Image{}, attempts, err
	}
	return pull.Image.Unawaited(), pull.Attempts, pull.Image.Loadable()
}

// into loads img into the target of a job and writes down what that came to.
func (b *batch) into(ctx context.Context, j *job, img image.Image, from report.Source, unpacked func(layers int)) (err error) {
	defer b.clock(j)
	defer recovered(&err)
	track := b.Progress.Begin(j.item.Name, img.Size())
	defer track.End()
	to := j.to()
	load := to.Load
	if teller, ok := to.(target.Teller); ok {
		load = func(ctx context.Context, img image.Image) (target.Result, error) {
			return teller.LoadTelling(ctx, img, unpacked)
		}
	}
	result, err := load(ctx, img.Observe(track.Add))
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

// recovered makes an error of a panic: nobody else would, and one image is not worth the lane.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("internal error: %v", v)
	}
}

// to is the target of a job, or the part of it that the pin is for.
func (j *job) to() target.Target {
	if selector, ok := j.target.Target.(target.Selector); ok && len(j.item.Pin.Nodes) > 0 {
		return selector.Only(j.item.Pin.Nodes)
	}
	return j.target.Target
}
