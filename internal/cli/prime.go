package cli

import (
	"context"
	"time"

	"github.com/pullonce/pullonce/internal/plan"
	"github.com/pullonce/pullonce/internal/prime"
	"github.com/pullonce/pullonce/internal/report"
)

// primeCommand fills the store.
type primeCommand struct {
	pinOptions
	storeOption
	registryOptions
	Platforms   list   `placeholder:"OS/ARCH" help:"Platforms to prime, one a line; default: linux and the host's architecture."`
	Timeout     span   `default:"10m" help:"How long a pull may wait and try again; a transfer that makes progress is not cut."`
	Concurrency int    `default:"4" help:"How many images move at a time."`
	MaxAge      span   `default:"7d" help:"Age from which the entry of a tag pin is compared with the registry; 0 is every run."`
	Verify      string `default:"fresh" enum:"fresh,full" help:"fresh: entries are verified when they are saved; full: those that are there are read again."`
	JSON        bool   `name:"json" action:"-" help:"Print the report as JSON."`
}

func (c *primeCommand) run(ctx context.Context, s *session) (ExitCode, error) {
	loaded, err := s.pins(c.pinOptions)
	if err != nil {
		return 0, err
	}
	platforms, err := parsePlatforms(c.Platforms)
	if err != nil {
		return 0, err
	}
	planned := plan.Make(loaded.Pins, plan.Options{Platforms: platforms, Salt: c.KeySalt})
	entries, err := s.openStore(c.Store)
	if err != nil {
		return 0, err
	}
	client, err := s.registry(c.registryOptions, time.Duration(c.Timeout), true)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	progress := s.progress()
	done := prime.Run(ctx, prime.Options{
		Items: planned.Items, Store: entries, Registry: client, Concurrency: c.Concurrency, MaxAge: time.Duration(c.MaxAge),
		VerifyFull: c.Verify == "full", Progress: progress,
	})
	progress.Close()
	if err := s.finish(done, c.JSON); err != nil {
		return 0, err
	}
	return exitOf(done), s.outputs(planned, done, output{"pulled", references(done, report.Registry)})
}

// exitOf is the exit code that a report stands for.
func exitOf(r report.Report) ExitCode {
	if r.Result == report.Failure {
		return ExitNo
	}
	return ExitOK
}
