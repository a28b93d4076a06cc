package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pullonce/pullonce/internal/cachekey"
	"github.com/pullonce/pullonce/internal/image/recompress"
	"github.com/pullonce/pullonce/internal/plan"
	"github.com/pullonce/pullonce/internal/prime"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/store/actions"
)

// primeCommand fills the store.
type primeCommand struct {
	pinOptions
	layersOption
	storeOption
	registryOptions
	Platforms    list   `placeholder:"OS/ARCH" help:"Platforms to prime, one a line; default: linux and the host's architecture."`
	Timeout      wait   `default:"10m" help:"How long a pull may wait and try again; a transfer that makes progress is not cut."`
	Concurrency  int    `default:"4" help:"How many images move at a time."`
	MaxAge       span   `default:"7d" help:"Age from which the entry of a tag pin is compared with the registry; 0 is every run."`
	Verify       string `default:"fresh" enum:"fresh,full" help:"fresh: entries are verified when they are saved; full: those that are there are read again."`
	OnReadOnly   string `default:"auto" enum:"auto,fail,warn" help:"What to do about a missing image where the store can't be written: fail, warn, or auto (warn in runs that strangers can start, else fail)."`
	AllowPrivate bool   `default:"false" help:"Save images that need credentials to a cache that pull requests from forks can read."`
	CacheQuota   string `default:"10GB" help:"Size of the Actions cache, for the warning that the set comes near it."`
	JSON         bool   `name:"json" action:"-" help:"Print the report as JSON."`
}

func (c *primeCommand) run(ctx context.Context, s *session) (ExitCode, error) {
	if c.Concurrency < 1 {
		return 0, usagef("take 1 or more", "concurrency is %d: nothing would move", c.Concurrency)
	}
	loaded, err := s.pins(c.pinOptions)
	if err != nil {
		return 0, err
	}
	platforms, err := parsePlatforms(c.Platforms)
	if err != nil {
		return 0, err
	}
	planned := plan.Make(loaded.Pins, plan.Options{Platforms: platforms, Salt: c.KeySalt, Format: c.format()})
	quota, err := parseBytes(c.CacheQuota)
	if err != nil {
		return 0, err
	}
	entries, err := s.openStore(c.Store, storeUse{timeout: time.Duration(c.Timeout)})
	if down, ok := errors.AsType[storeDown](err); ok {
		s.say(report.Problem{Severity: report.Error, Kind: "store", Message: down.reason, Hint: down.hint})
		return ExitNo, s.outputs(planned, report.Report{Mode: "prime", Result: report.Failure}, output{"pulled", []string{}})
	}
	if err != nil {
		return 0, err
	}
	client, err := s.registry(c.registryOptions, time.Duration(c.Timeout), true)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	layers := s.recompress(c.layersOption)
	progress := s.progress()
	_, shared := entries.(*actions.Store)
	done := prime.Run(ctx, prime.Options{
		Items: planned.Items, Store: entries, Registry: client, Recompress: layers, Concurrency: c.Concurrency, MaxAge: time.Duration(c.MaxAge),
		VerifyFull: c.Verify == "full", OnReadOnly: s.onReadOnly(c.OnReadOnly), Exposed: shared && !c.AllowPrivate && s.runner.Public(),
		Progress: progress,
	})
	progress.Close()
	annotateLimits(&done, client.RateLimits())
	if shared {
		annotateQuota(&done, quota)
	}
	done = s.scrub(done)
	s.finish(done, c.JSON)
	return exitOf(done), s.outputs(planned, done, output{"pulled", references(done, report.Registry)})
}

// recompress is where layers are compressed anew, until the run is over; nil where they stay as they are.
func (s *session) recompress(o layersOption) *recompress.Spool {
	if o.format() == cachekey.V1 {
		return nil
	}
	layers := recompress.New(recompress.Options{Dir: s.tempDir()})
	s.atEnd(layers.Close)
	return layers
}

// onReadOnly is the answer to a store that can't be written: where strangers can start the run that is as it should be.
func (s *session) onReadOnly(option string) prime.OnReadOnly {
	switch {
	case option != "auto":
		return prime.OnReadOnly(option)
	case s.runner.Untrusted():
		return prime.WarnReadOnly
	default:
		return prime.FailReadOnly
	}
}

// annotateLimits notes what registries said of their limits.
func annotateLimits(r *report.Report, limits map[string]registry.RateLimit) {
	for _, host := range slices.Sorted(maps.Keys(limits)) {
		r.Notes = append(r.Notes, fmt.Sprintf("%s: %s", host, limits[host]))
	}
}

// annotateQuota notes how much of the cache the set takes, and warns when it comes near the whole: the service then drops
// what was used least.
func annotateQuota(r *report.Report, quota int64) {
	var size int64
	for _, img := range r.Images {
		size += img.Size
	}
	r.Notes = append(r.Notes, fmt.Sprintf("the set takes %s of the cache's %s", report.Bytes(size), report.Bytes(quota)))
	if quota > 0 && size > quota/10*8 {
		r.Problems = append(r.Problems, report.Problem{
			Severity: report.Warning, Kind: "quota",
			Message: fmt.Sprintf("the set takes %s of the cache's %s: past its quota, the service drops what was used least", report.Bytes(size), report.Bytes(quota)),
			Hint:    "use a registry or a folder of your own as the store, or raise cache-quota if the repository's is larger",
		})
	}
}

// exitOf is the exit code that a report stands for.
func exitOf(r report.Report) ExitCode {
	if r.Result == report.Failure {
		return ExitNo
	}
	return ExitOK
}
