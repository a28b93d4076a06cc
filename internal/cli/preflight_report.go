package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pullonce/pullonce/internal/preflight"
	"github.com/pullonce/pullonce/internal/report"
)

// flight is a preflight that has landed.
type flight struct {
	verdict           preflight.Verdict
	server, namespace string
	kept              bool
	began             time.Time
}

func (p flight) code() ExitCode {
	if p.verdict.Allowed() {
		return ExitOK
	}
	return ExitNo
}

func (p flight) result() report.Result {
	if p.verdict.Allowed() {
		return report.Success
	}
	return report.Failure
}

// problems are what a person should know: what is denied, what was not answered, and what was ridden out.
func (p flight) problems() []report.Problem {
	var all []report.Problem
	if denied := p.verdict.Denied(); len(denied) > 0 {
		all = append(all, report.Problem{
			Severity: report.Error, Kind: "denied",
			Message: fmt.Sprintf("not allowed in namespace %q: %s", p.namespace, strings.Join(preflight.Lines(denied), "; ")),
			Hint:    "give the job's user a role with them, or name what it really needs in permissions",
		})
	}
	if failed := p.verdict.Failed(); len(failed) > 0 {
		all = append(all, report.Problem{
			Severity: report.Error, Kind: "unanswered",
			Message: fmt.Sprintf("%d of %d questions have no answer from %s: %s", len(failed), len(p.verdict.Rows), p.server, report.Line(failed[0].Err)),
		})
	}
	if w, ok := p.verdict.RodeOut(); ok {
		all = append(all, report.Problem{
			Severity: report.Warning, Kind: "window",
			Message: fmt.Sprintf("rode out %s in which the cluster's API did not answer as it should: %d of %d questions, up to %d tries (%s)",
				report.Duration(w.Length), w.Questions, len(p.verdict.Rows), w.Attempts, report.Line(w.Last)),
		})
	}
	return all
}

// landed tells of a preflight, in every form that somebody may read.
func (s *session) landed(p flight, asJSON bool) error {
	s.sayAll(p.problems())
	var err error
	if asJSON {
		err = s.printJSON(p.document())
	} else {
		err = s.print(p.writeTable)
	}
	s.untold(errors.Join(err, s.summarizeFlight(p), s.keep("preflight", p.document())))
	return s.write([]output{
		{"allowed", strconv.FormatBool(p.verdict.Allowed())}, {"result", string(p.result())},
	})
}

// document is the verdict for programs.
func (p flight) document() func(io.Writer) error {
	type row struct {
		Permission string `json:"permission"`
		Namespace  string `json:"namespace,omitempty"`
		Outcome    string `json:"outcome"`
		Reason     string `json:"reason,omitempty"`
		Attempts   int    `json:"attempts"`
	}
	rows := make([]row, len(p.verdict.Rows))
	for i, r := range p.verdict.Rows {
		rows[i] = row{r.String(), r.Namespace, r.Outcome(), reason(r), r.Attempts}
	}
	return indented(map[string]any{
		"mode": "preflight", "result": p.result(), "allowed": p.verdict.Allowed(), "kept": p.kept, "server": p.server,
		"namespace": p.namespace, "permissions": rows, "denied": emptyNotNull(preflight.Lines(p.verdict.Denied())),
		"problems": append([]report.Problem{}, p.problems()...), "elapsed_ns": time.Since(p.began),
	})
}

func reason(r preflight.Row) string {
	if r.Err != nil {
		return report.Line(r.Err)
	}
	return r.Reason
}

func (p flight) cells(r preflight.Row) []string {
	attempts := "–"
	if r.Attempts > 0 {
		attempts = strconv.Itoa(r.Attempts)
	}
	return []string{r.String(), cmp.Or(r.Namespace, "–"), r.Outcome(), attempts}
}

var flightColumns = []string{"PERMISSION", "NAMESPACE", "OUTCOME", "ATTEMPTS"}

func (p flight) writeTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(flightColumns, "\t"))
	for _, r := range p.verdict.Rows {
		fmt.Fprintln(tw, strings.Join(p.cells(r), "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "preflight: %s\n", p.headline())
	return err
}

// headline is the verdict in one line.
func (p flight) headline() string {
	line := fmt.Sprintf("%s, %d of %d permissions at %s", p.result(), len(p.verdict.Rows)-len(p.verdict.Denied())-len(p.verdict.Failed()), len(p.verdict.Rows), p.server)
	if p.kept {
		return line + ", kept from earlier in this job"
	}
	return line + " in " + report.Duration(time.Since(p.began))
}

func (s *session) summarizeFlight(p flight) error {
	if !s.runner.Enabled() {
		return nil
	}
	rows := make([]string, len(p.verdict.Rows))
	for i, r := range p.verdict.Rows {
		rows[i] = report.Row(p.cells(r)...)
	}
	head := fmt.Sprintf("### pullonce preflight: %s\n\n%s\n\n%s", p.result(), p.headline(), report.Heading(flightColumns...))
	return s.runner.Summary(head, rows, "")
}
