package lane

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/target"
)

// answer is what a target says of its platform.
type answer struct {
	platform platform.Platform
	err      error
}

// ask asks all targets at once.
func (r *run) ask(ctx context.Context) []answer {
	answers := make([]answer, len(r.Targets))
	var asked sync.WaitGroup
	for i, t := range r.Targets {
		asked.Go(func() {
			a := &answers[i]
			defer recovered(&a.err)
			a.platform, a.err = t.Platform(ctx)
		})
	}
	asked.Wait()
	return answers
}

// prepare has the targets that something is loaded into ask what they need to know, while the entries are opened. stop
// ends what is still being asked then.
func (r *run) prepare(ctx context.Context, jobs []job) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	for _, t := range r.Targets {
		preparer, ok := t.Target.(target.Preparer)
		if !ok || !slices.ContainsFunc(jobs, func(j job) bool { return j.target.Name == t.Name && j.skip == "" }) {
			continue
		}
		asking.Go(func() {
			var err error // of no interest: Load will meet it
			defer recovered(&err)
			preparer.Prepare(ctx)
		})
	}
	return func() {
		cancel()
		asking.Wait()
	}
}

// expectTime is how long loads are held up by what only saves them time.
const expectTime = 2 * time.Second

// expect has the targets ask about the images that are about to go into them, where they can do that in one question.
func (r *run) expect(ctx context.Context, waiting []*ticket) {
	ctx, cancel := context.WithTimeout(ctx, expectTime)
	defer cancel()
	var asking sync.WaitGroup
	for _, t := range r.Targets {
		expecter, ok := t.Target.(target.Expecter)
		images := imagesFor(t, waiting)
		if !ok || len(images) < 2 { // one is asked about by its load
			continue
		}
		asking.Go(func() {
			var err error // of no interest: Load will meet it
			defer recovered(&err)
			expecter.Expect(ctx, images)
		})
	}
	asking.Wait()
}

// imagesFor are those that wait to go into a target.
func imagesFor(t Target, waiting []*ticket) []image.Image {
	var images []image.Image
	for _, o := range waiting {
		if slices.ContainsFunc(o.jobs, func(j *job) bool { return j.target.Name == t.Name }) {
			images = append(images, o.img)
		}
	}
	return images
}
