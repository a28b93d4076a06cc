package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/store"
)

// inspectCommand lists what a store holds and reads all of it.
type inspectCommand struct {
	storeOption
	Keys []string `arg:"" optional:"" name:"key" help:"Keys to inspect; none inspects the newest entry of every key."`
	JSON bool     `name:"json" help:"Print the entries as JSON."`
}

// inspected is the row of one entry.
type inspected struct {
	Key        string `json:"key"`
	Generation int    `json:"generation"`
	Reference  string `json:"reference,omitempty"`
	Platform   string `json:"platform,omitempty"`
	Digest     string `json:"digest,omitempty"`
	Layers     int    `json:"layers"`
	// Recompressed says that layers are not as the registry has them.
	Recompressed bool      `json:"recompressed,omitempty"`
	Size         int64     `json:"size"`
	Saved        time.Time `json:"saved"`
	Problem      string    `json:"problem,omitempty"`
}

func (c *inspectCommand) run(ctx context.Context, s *session) (ExitCode, error) {
	entries, err := s.openManaged(c.Store)
	if err != nil {
		return 0, err
	}
	keys := c.Keys
	if len(keys) == 0 {
		if keys, err = allKeys(ctx, entries); err != nil {
			return 0, err
		}
	}
	rows, code := make([]inspected, 0, len(keys)), ExitOK
	for _, key := range keys {
		row, err := inspectOne(ctx, entries, key)
		if errors.Is(err, store.ErrNotFound) {
			s.say(report.Problem{Severity: report.Error, Kind: "miss", Message: fmt.Sprintf("the store has no entry %q", key), Hint: "see: pullonce inspect"})
			code = ExitNo
			continue
		}
		if err != nil {
			return 0, err
		}
		if row.Problem != "" {
			code = ExitNo
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 && code != ExitOK && !c.JSON {
		return code, nil // what there is to say was said
	}
	return code, s.printEntries(rows, c.JSON)
}

// allKeys are the keys of the store, each once, whatever its generations.
func allKeys(ctx context.Context, entries store.Managed) ([]string, error) {
	listed, err := entries.List(ctx)
	if err != nil {
		return nil, noPlace(err)
	}
	var keys []string
	for i, entry := range listed {
		if i == 0 || listed[i-1].Key != entry.Key {
			keys = append(keys, entry.Key)
		}
	}
	return keys, nil
}

func inspectOne(ctx context.Context, entries store.Managed, key string) (inspected, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found, err := entries.Inspect(ctx, key)
	if err != nil {
		return inspected{}, fmt.Errorf("inspecting %s: %w", key, err)
	}
	row := inspected{Key: found.Entry.Key, Generation: found.Entry.Generation, Size: found.Entry.Size, Saved: found.Entry.Saved}
	if found.Problem != nil {
		row.Problem = report.Line(found.Problem)
		return row, nil
	}
	row.Reference, row.Platform = found.Image.Reference().String(), found.Image.Platform().String()
	row.Digest, row.Layers = found.Image.Root().Digest.String(), len(found.Image.Layers())
	row.Recompressed = found.Image.Recompressed()
	return row, nil
}

// kept is how many layers there are, and how they are kept where that is not as the registry has them.
func (i inspected) kept() string {
	if i.Recompressed {
		return fmt.Sprintf("%d zstd", i.Layers)
	}
	return strconv.Itoa(i.Layers)
}

func (s *session) printEntries(rows []inspected, asJSON bool) error {
	if asJSON {
		return s.printJSON(indented(rows))
	}
	return s.print(func(w io.Writer) error {
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "KEY\tIMAGE\tPLATFORM\tLAYERS\tSIZE\tSAVED\tSTATE")
		for _, row := range rows {
			state := "verified"
			if row.Problem != "" {
				state = row.Problem
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", store.Generation(row.Key, row.Generation), row.Reference,
				row.Platform, row.kept(), report.Bytes(row.Size), row.Saved.UTC().Format(time.RFC3339), state)
		}
		return tw.Flush()
	})
}
