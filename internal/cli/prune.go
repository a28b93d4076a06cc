package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/pullonce/pullonce/internal/cachekey"
	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/plan"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/store"
)

// pruneCommand deletes what nobody needs. It shows what it would delete unless it is told to.
type pruneCommand struct {
	pinOptions
	storeOption
	Platforms list `placeholder:"OS/ARCH" help:"Platforms whose entries stay, one a line; default: those that a pin names itself, or else all."`
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
	found, err := entries.Prune(ctx, store.PruneOptions{Keep: keep, OlderThan: time.Duration(c.OlderThan), DryRun: !c.Delete})
	if err != nil {
		return 0, noPlace(err)
	}
	return ExitOK, c.print(s, found)
}

// keep says which keys the pin lists need, whether prime recompresses layers or not. Which platforms prime was asked for
// stands in no list: unless they are named here, every entry of a pin that names none itself stays. Without a pin list every
// key does, and only age and leftovers count; but a list that was given and is empty is a mistake.
func (c *pruneCommand) keep(s *session) (func(string) bool, error) {
	if c.Pins == nil && c.Images == "" {
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
	formats := []cachekey.Format{cachekey.V1, cachekey.V2}
	needed := map[string]bool{}
	var open []pin.Pin // those whose platforms nobody names
	for _, p := range loaded.Pins {
		if len(platforms)+len(p.Platforms) == 0 {
			open = append(open, p)
			continue
		}
		for _, format := range formats {
			for _, key := range plan.Make([]pin.Pin{p}, plan.Options{Platforms: platforms, Salt: c.KeySalt, Format: format}).Keys() {
				needed[key] = true
			}
		}
	}
	return func(key string) bool {
		return needed[key] || slices.ContainsFunc(formats, func(format cachekey.Format) bool {
			return slices.ContainsFunc(open, func(p pin.Pin) bool {
				_, ok := format.PlatformOf(key, p.Reference, c.KeySalt)
				return ok
			})
		})
	}, nil
}

// pruned is the row of one thing that is deleted, or would be.
type pruned struct {
	Key        string            `json:"key"`
	Generation int               `json:"generation"`
	Path       string            `json:"path"`
	Size       int64             `json:"size"`
	Reason     store.PruneReason `json:"reason"`
	Deleted    bool              `json:"deleted"`
}

func (c *pruneCommand) rows(found []store.Pruned) []pruned {
	rows := make([]pruned, len(found))
	for i, p := range found {
		rows[i] = pruned{p.Key, p.Generation, p.Path, p.Size, p.Reason, c.Delete}
	}
	return rows
}

func (c *pruneCommand) print(s *session, found []store.Pruned) error {
	if c.JSON {
		return s.printJSON(indented(c.rows(found)))
	}
	var freed int64
	return s.print(func(w io.Writer) error {
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, p := range found {
			freed += p.Size
			fmt.Fprintf(tw, "%s\t%s\t%s\n", store.Generation(p.Key, p.Generation), report.Bytes(p.Size), p.Reason)
		}
		if err := tw.Flush(); err != nil {
			return err
		}
		if c.Delete {
			_, err := fmt.Fprintf(w, "prune: deleted %d, %s\n", len(found), report.Bytes(freed))
			return err
		}
		_, err := fmt.Fprintf(w, "prune: would delete %d, %s; --delete does it\n", len(found), report.Bytes(freed))
		return err
	})
}
