package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/pullonce/pullonce/internal/gate"
	"github.com/pullonce/pullonce/internal/report"
)

// gateCommand judges the jobs of a run.
type gateCommand struct {
	Jobs            text `placeholder:"JSON" help:"The needs context: toJSON(needs)."`
	Require         list `default:"*prime*" placeholder:"GLOB" help:"Jobs that must succeed, one a line; default: ids that contain prime."`
	AllowedSkips    list `placeholder:"GLOB" help:"Jobs that may be skipped, one a line."`
	AllowedFailures list `placeholder:"GLOB" help:"Jobs that may fail or be cancelled, one a line."`
	AtLeastOne      list `placeholder:"GLOB" help:"Jobs of which at least one must have succeeded, one a line."`
	JSON            bool `name:"json" action:"-" help:"Print the verdict as JSON."`
}

func (c *gateCommand) run(_ context.Context, s *session) (ExitCode, error) {
	rules, err := c.rules()
	if err != nil {
		return 0, err
	}
	verdict, err := gate.Judge([]byte(c.Jobs), rules)
	if err != nil {
		return 0, usageError{err: err, hint: "pass the needs context: jobs: ${{ toJSON(needs) }}"}
	}
	var problems []report.Problem
	for _, finding := range verdict.Findings {
		problems = append(problems, gateProblem(finding))
	}
	s.sayAll(problems)
	s.untold(s.printVerdict(verdict, c.JSON))
	err = s.write([]output{
		{"result", verdict.Result()}, {"failed", emptyNotNull(verdict.Failed)}, {"skipped", emptyNotNull(verdict.Skipped)},
	})
	if !verdict.OK {
		return ExitNo, err
	}
	return ExitOK, err
}

// rules are the inputs as the gate has them. One that is given and names nothing is a mistake: without it the gate would
// hold the run to less than was asked for.
func (c *gateCommand) rules() (gate.Rules, error) {
	var rules gate.Rules
	for _, input := range []struct {
		name  string
		lines list
		into  *[]string
	}{
		{"require", c.Require, &rules.Require},
		{"allowed-skips", c.AllowedSkips, &rules.AllowedSkips},
		{"allowed-failures", c.AllowedFailures, &rules.AllowedFailures},
		{"at-least-one", c.AtLeastOne, &rules.AtLeastOne},
	} {
		*input.into = words(input.lines)
		if len(input.lines) > 0 && len(*input.into) == 0 {
			return gate.Rules{}, usagef("name the ids of jobs, one a line, or leave the input out", "%s is %q, which names no job", input.name, input.lines)
		}
	}
	if err := rules.Check(); err != nil {
		return gate.Rules{}, usageError{err: err, hint: "a pattern is a job's id, in which * stands for any characters and [a-c] for one of them"}
	}
	return rules, nil
}

// words splits lines at commas as well: the ids of jobs have none, and the field's other gate is written so.
func words(lines []string) []string {
	var all []string
	for _, line := range lines {
		for word := range strings.SplitSeq(line, ",") {
			if word = strings.TrimSpace(word); word != "" {
				all = append(all, word)
			}
		}
	}
	return all
}

// emptyNotNull makes an empty list an empty JSON array.
func emptyNotNull(values []string) []string {
	if values == nil {
		return []string{}
	}
	return values
}

func gateProblem(f gate.Finding) report.Problem {
	p := report.Problem{Severity: report.Notice, Kind: "gate", Message: f.Why}
	if f.Fatal {
		p.Severity = report.Error
	}
	if f.Job != "" {
		p.Message = fmt.Sprintf("job %q: %s", f.Job, f.Why)
	}
	return p
}

// printVerdict shows the verdict: as a table or JSON, and in a workflow in the summary and as a file.
func (s *session) printVerdict(v gate.Verdict, asJSON bool) error {
	document := indented(map[string]any{
		"mode": "gate", "result": v.Result(), "jobs": v.Jobs, "findings": append([]gate.Finding{}, v.Findings...),
	})
	var err error
	if asJSON {
		err = s.printJSON(document)
	} else {
		err = s.print(func(w io.Writer) error { return writeJobs(w, v) })
	}
	return errors.Join(err, s.summarizeVerdict(v), s.keep("gate", document))
}

func writeJobs(w io.Writer, v gate.Verdict) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "JOB\tRESULT\tGATE\tWHY")
	for _, job := range v.Jobs {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", job.ID, job.Result, pass(job.Passed), job.Why)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "gate: %s\n", v.Result())
	return err
}

func pass(passed bool) string {
	if passed {
		return "pass"
	}
	return "fail"
}

func (s *session) summarizeVerdict(v gate.Verdict) error {
	if !s.runner.Enabled() {
		return nil
	}
	rows := make([]string, len(v.Jobs))
	for i, job := range v.Jobs {
		rows[i] = report.Row(job.ID, job.Result, pass(job.Passed), job.Why)
	}
	return s.runner.Summary(fmt.Sprintf("### pullonce gate: %s\n\n%s", v.Result(), report.Heading("JOB", "RESULT", "GATE", "WHY")), rows, "")
}
