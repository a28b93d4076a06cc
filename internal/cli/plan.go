package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/pullonce/pullonce/internal/plan"
)

// planCommand says what a pin list stands for.
type planCommand struct {
	pinOptions
	Lane      string `placeholder:"NAME" help:"The lane, as the lanes= globs of the pin list name it; empty selects every pin."`
	Platforms list   `placeholder:"OS/ARCH" help:"Platforms to plan for, one a line; default: linux and the host's architecture."`
	JSON      bool   `name:"json" action:"-" help:"Print the plan as JSON."`
}

func (c *planCommand) run(_ context.Context, s *session) (ExitCode, error) {
	loaded, err := s.pins(c.pinOptions)
	if err != nil {
		return 0, err
	}
	platforms, err := parsePlatforms(c.Platforms)
	if err != nil {
		return 0, err
	}
	planned := plan.Make(s.lane(loaded, c.Lane), plan.Options{Platforms: platforms, Salt: c.KeySalt})
	if err := s.printPlan(planned, c.JSON); err != nil {
		return 0, err
	}
	matrix, err := json.Marshal(planned.Matrix())
	if err != nil {
		return 0, fmt.Errorf("writing the matrix: %w", err)
	}
	return ExitOK, s.write(append(planOutputs(planned), output{"images", planned.Images()}, output{"matrix", json.RawMessage(matrix)}))
}

// printPlan shows the plan to a person or a program.
func (s *session) printPlan(planned plan.Plan, asJSON bool) error {
	if asJSON {
		return s.printJSON(indented(map[string]any{
			"images": planned.Images(), "keys": planned.Keys(), "key": planned.Key(), "path": planned.Path(),
			"matrix": planned.Matrix(), "count": planned.Count(),
		}))
	}
	return s.print(func(w io.Writer) error {
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "IMAGE\tPLATFORM\tKEY")
		for _, item := range planned.Items {
			fmt.Fprintf(tw, "%s\t%s\t%s\n", item.Name, item.Platform, item.Key)
		}
		return tw.Flush()
	})
}
