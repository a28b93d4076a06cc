package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/pullonce/pullonce/internal/plan"
	"github.com/pullonce/pullonce/internal/report"
)

// planCommand says what a pin list stands for.
type planCommand struct {
	pinOptions
	layersOption
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
	planned := plan.Make(s.lane(loaded, c.Lane), plan.Options{Platforms: platforms, Salt: c.KeySalt, Format: c.format()})
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
		return errors.Join(s.printJSON(indented(map[string]any{
			"images": planned.Images(), "keys": planned.Keys(), "key": planned.Key(), "path": planned.Path(),
			"matrix": planned.Matrix(), "count": planned.Count(),
		})), s.summarizePlan(planned))
	}
	return errors.Join(s.print(func(w io.Writer) error {
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, strings.Join(planColumns(), "\t"))
		for _, item := range planned.Items {
			fmt.Fprintln(tw, strings.Join(planCells(item), "\t"))
		}
		return tw.Flush()
	}), s.summarizePlan(planned))
}

// planColumns are the headings of the table, in a terminal and in the job summary.
func planColumns() []string { return []string{"IMAGE", "PLATFORM", "KEY"} }

// planCells is the row of an item. A name that tells platforms apart has no need to where a column does.
func planCells(item plan.Item) []string {
	platform := item.Platform.String()
	return []string{strings.TrimSuffix(item.Name, " "+platform), platform, item.Key}
}

func (s *session) summarizePlan(planned plan.Plan) error {
	if !s.runner.Enabled() {
		return nil
	}
	rows := make([]string, len(planned.Items))
	for i, item := range planned.Items {
		rows[i] = report.Row(planCells(item)...)
	}
	head := fmt.Sprintf("### pullonce plan: %s\n\n", count(len(rows), "image"))
	if len(rows) > 0 {
		head += report.Heading(planColumns()...)
	}
	return s.runner.Summary(head, rows, "")
}
