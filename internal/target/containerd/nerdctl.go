package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/platform"
)

// Nerdctl is a containerd behind nerdctl, for hosts that have no ctr.
type Nerdctl struct {
	// Runner runs nerdctl where the containerd is.
	Runner command.Runner
	// Argv is the command up to its subcommand: "nerdctl" with the flags that select address and namespace. The
	// snapshotter is the one that nerdctl is configured for.
	Argv []string
}

var _ Client = (*Nerdctl)(nil)

// About implements Client.
func (c *Nerdctl) About(ctx context.Context) (About, error) {
	said, err := c.run(ctx, nil, "info", "--format", "{{json .}}")
	if err != nil {
		return About{}, err
	}
	var info struct{ OSType, Architecture string }
	if err := json.Unmarshal([]byte(said), &info); err != nil {
		return About{}, fmt.Errorf("reading what nerdctl info says: %w", err)
	}
	if info.OSType == "" || info.Architecture == "" {
		return About{}, errors.New("nerdctl info names no platform")
	}
	return About{Platform: platform.Normalize(platform.Platform{OS: info.OSType, Architecture: info.Architecture})}, nil
}

// Find implements Client. What is not whole is not listed by nerdctl, and what is not unpacked has no size.
func (c *Nerdctl) Find(ctx context.Context, q Query) ([]Held, error) {
	list, err := c.run(ctx, nil, "images", "--no-trunc", "--names", "--format", "{{json .}}")
	if err != nil {
		return nil, err
	}
	var held []Held
	for line := range strings.Lines(list) {
		var row struct {
			Name, Size string
			Digest     digest.Digest
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			return nil, fmt.Errorf("reading what nerdctl images says: %w", err)
		}
		if slices.Contains(q.Names, row.Name) || slices.Contains(q.Targets, row.Digest) {
			h := Held{Name: row.Name, Target: row.Digest, Whole: strings.Trim(row.Size, "0. B") != "", State: "unpacked"}
			if !h.Whole {
				h.State = "not unpacked"
			}
			held = append(held, h)
		}
	}
	return held, nil
}

// Import implements Client.
func (c *Nerdctl) Import(ctx context.Context, a Archive) (held []Held, sent int64, err error) {
	input, err := a.input(&sent)
	if err != nil {
		return nil, 0, err
	}
	if _, err = c.run(ctx, input, "load", "--quiet"); err != nil || a.Then == nil {
		return nil, sent, err
	}
	held, err = c.Find(ctx, *a.Then)
	return held, sent, err
}

// Tag implements Client.
func (c *Nerdctl) Tag(ctx context.Context, t Tagging) ([]Held, error) {
	for _, name := range t.Names {
		if _, err := c.run(ctx, nil, "tag", t.Source, name); err != nil {
			return nil, err
		}
	}
	return c.Find(ctx, t.Then)
}

// Remove implements Client.
func (c *Nerdctl) Remove(ctx context.Context, names []string) error {
	var errs []error
	for _, name := range names {
		_, err := c.run(ctx, nil, "rmi", name)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c *Nerdctl) run(ctx context.Context, stdin func(context.Context, io.Writer) error, args ...string) (string, error) {
	return run(ctx, c.Runner, command.Command{Argv: slices.Concat(c.Argv, args), Stdin: stdin}, args[0])
}
