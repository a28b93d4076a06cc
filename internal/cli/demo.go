package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/pullonce/pullonce/internal/demo"
	"github.com/pullonce/pullonce/internal/report"
)

// demoCommand shows the main job on embedded parts.
type demoCommand struct {
	Lanes int `default:"24" help:"Width of the matrix."`
}

func (c *demoCommand) run(ctx context.Context, s *session) (ExitCode, error) {
	if c.Lanes < 1 || c.Lanes > 1000 {
		return 0, usagef("take 1 to 1000", "%d lanes are out of range", c.Lanes)
	}
	dir, err := os.MkdirTemp(s.tempDir(), "pullonce-demo-*")
	if err != nil {
		return 0, fmt.Errorf("making a folder for the store: %w", err)
	}
	defer os.RemoveAll(dir)
	result, err := demo.Run(ctx, demo.Options{Lanes: c.Lanes, Dir: dir, Say: func(line string) { s.printf("%s", line) }})
	if err != nil {
		return 0, err
	}
	if err := s.print(result.WriteTable); err != nil {
		return 0, err
	}
	if err := result.Check(); err != nil {
		s.say(report.Problem{Severity: report.Error, Kind: "demo", Message: err.Error()})
		return ExitNo, nil
	}
	return ExitOK, nil
}
