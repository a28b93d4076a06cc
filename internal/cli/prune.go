package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/pullonce/pullonce/internal/cachekey"
	"github.com/pullonce/pullonce/internal/plan"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/store"
)

// pruneCommand deletes what nobody needs. It shows what it would delete unless it is told to.
type pruneCommand struct {
	pinOptions
	storeOption
	Platforms list `placeholder:"OS/ARCH" help:"Platforms whose entries stay, one a line; default: linux and the host's architecture."`
	OlderThan span `default:"0" help:"Delete also what the pins need where it was saved longer ago, as in 30d; 0 is no limit."`
	Delete    bool `help:"Delete; without it, prune only says what it would delete."`
	JSON      bool `name:"json" help:"Print what is or would be deleted as JSON."`
}

func (c *pruneCommand) run(ctx context.Context, s *session) (ExitCode, error) {
	keep, err := c.keep(s)
	if err != nil {
		return 0, err
	}
	entries, err := s.openManaged(c.Store)
	if err != nil {
		return 0, err
	}
	pruned, err := entries.Prune(ctx, store.PruneOptions{Keep: keep, OlderThan: time.Duration(c.OlderThan), DryRun: !c.Delete})
	if err != nil {
		return 0, err
	}
	return ExitOK, c.print(s, pruned)
}

// keep says which keys the pin lists need, whether prime recompresses layers or not. Without a pin list every key is kept:
// only age and leftovers count.
func (c *pruneCommand) keep(s *session) (func(string) bool, error) {
	if len(c.Pins) == 0 && c.Images == "" {
		return nil, nil //nolint:nilnil // nil keeps all
	}
	loaded, err := s.pins(c.pinOptions)
	if err != nil {
		return nil, err
	}
	platforms, err := parsePlatforms(c.Platforms)
	if err != nil {
		return nil, err
	}
	needed := map[string]bool{}
	for _, format := range []cachekey.Format{cachekey.V1, cachekey.V2} {
		for _, key := range plan.Make(loaded.Lane(""), plan.Options{Platforms: platforms, Salt: c.KeySalt, Format: format}).Keys() {
			needed[key] = true
		}
	}
	return func(key string) bool { return needed[key] }, nil
}

func (c *pruneCommand) print(s *session, pruned []store.Pruned) error {
	if c.JSON {
		return s.printJSON(indented(append([]store.Pruned{}, pruned...)))
	}
	var freed int64
	return s.print(func(w io.Writer) error {
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, p := range pruned {
			freed += p.Size
			fmt.Fprintf(tw, "%s\t%s\t%s\n", store.Generation(p.Key, p.Generation), report.Bytes(p.Size), p.Reason)
		}
		if err := tw.Flush(); err != nil {
			return err
		}
		if c.Delete {
			_, err := fmt.Fprintf(w, "prune: deleted %d, %s\n", len(pruned), report.Bytes(freed))
			return err
		}
		_, err := fmt.Fprintf(w, "prune: would delete %d, %s; --delete does it\n", len(pruned), report.Bytes(freed))
		return err
	})
}
