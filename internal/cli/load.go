package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pullonce/pullonce/internal/cachekey"
	"github.com/pullonce/pullonce/internal/lane"
	"github.com/pullonce/pullonce/internal/plan"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/report"
)

// loadCommand is a lane.
type loadCommand struct {
	pinOptions
	layersOption
	storeOption
	registryOptions
	Into           list   `default:"docker" placeholder:"TARGET" help:"What the images are loaded into, one a line: docker, kind[:CLUSTER], containerd[:NAMESPACE], podman or none."`
	Lane           string `placeholder:"NAME" help:"The lane, as the lanes= globs of the pin list name it; empty selects every pin."`
	OnMiss         string `default:"pull" enum:"pull,warn,fail" help:"What to do about an image that the store can't give: pull, warn or fail."`
	Timeout        wait   `default:"3m" help:"How long the fallback pull may wait and try again; a store that does not answer gets a third of it, so that time is left to pull."`
	Concurrency    int    `default:"0" help:"How many images are loaded at a time; 0 is one for each core, from 2 to 4."`
	Keys           list   `placeholder:"KEY" help:"The keys that prime says it saved: one of these that is not found is looked up again before it is a miss."`
	VisibilityWait wait   `default:"20s" help:"How long an entry that prime saved may take to show up."`
	JSON           bool   `name:"json" action:"-" help:"Print the report as JSON."`
}

func (c *loadCommand) run(ctx context.Context, s *session) (ExitCode, error) {
	if c.Concurrency < 0 {
		return 0, usagef("take 1 or more, or 0 for one for each core", "concurrency is %d: nothing would move", c.Concurrency)
	}
	for _, key := range c.Keys {
		if !cachekey.IsKey(key) {
			return 0, usagef(oneEach(key, "pass the output keys of prime, or leave it out"), "%q in keys is no key", key)
		}
	}
	loaded, err := s.pins(c.pinOptions)
	if err != nil {
		return 0, err
	}
	targets, err := s.targets(c.Into)
	if err != nil {
		return 0, err
	}
	entries, err := s.openStore(c.Store, storeUse{
		saved: c.Keys, visible: time.Duration(c.VisibilityWait), timeout: time.Duration(c.Timeout) / 3, reading: true,
	})
	down, noStore := errors.AsType[storeDown](err)
	if err != nil && !noStore {
		return 0, err
	}
	client, err := s.registry(c.registryOptions, time.Duration(c.Timeout), false)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	selected := s.lane(loaded, c.Lane)
	progress := s.progress()
	done := lane.Run(ctx, lane.Options{
		Pins: selected, Salt: c.KeySalt, Format: c.format(), Store: entries, StoreDown: down.orNil(noStore), Registry: client, Targets: targets, OnMiss: lane.OnMiss(c.OnMiss),
		Concurrency: c.Concurrency, Progress: progress,
	})
	progress.Close()
	annotateLimits(&done, client.RateLimits())
	done = s.scrub(done)
	s.finish(done, c.JSON)
	planned := plan.Plan{Items: lane.Items(selected, platform.Host(), c.KeySalt, c.format())}
	return exitOf(done), s.outputs(planned, done,
		output{"loaded", inEveryTarget(done)},
		output{"missed", references(done, report.Nowhere, report.Registry)})
}

// inEveryTarget are the references of the images that no target lacks.
func inEveryTarget(done report.Report) []string {
	lacking := references(done, report.Nowhere)
	return slices.DeleteFunc(references(done, report.Present, report.Cache, report.Registry), func(ref string) bool {
		return slices.Contains(lacking, ref)
	})
}
