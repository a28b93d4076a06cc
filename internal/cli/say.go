package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/workflow"
)

// say tells a person of a problem: as an annotation in a workflow, as "error:" and "hint:" lines elsewhere.
func (s *session) say(p report.Problem) {
	if s.runner.Enabled() {
		s.runner.Annotate(annotation(p))
		return
	}
	bare := p
	bare.Hint = ""
	fmt.Fprintf(s.Stderr, "%s: %s\n", p.Severity, bare)
	if p.Hint != "" {
		fmt.Fprintf(s.Stderr, "hint: %s\n", p.Hint)
	}
}

// maxAnnotations is how many annotations of a level the runner shows for a step; further ones it drops without a word
// (actions/runner, GlobalContext and ExecutionContext: 10 of each).
const maxAnnotations = 10

// sayAll tells of problems, the gravest first, so that none that matters is among those the runner drops: where a level
// has too many, the last annotation says how many more the log has.
func (s *session) sayAll(problems []report.Problem) {
	for _, level := range []report.Severity{report.Error, report.Warning, report.Notice} {
		var of []report.Problem
		for _, p := range problems {
			if p.Severity == level {
				of = append(of, p)
			}
		}
		shown := len(of)
		if s.runner.Enabled() && len(of) > maxAnnotations {
			shown = maxAnnotations - 1
		}
		for _, p := range of[:shown] {
			s.say(p)
		}
		if shown == len(of) {
			continue
		}
		for _, p := range of[shown:] {
			s.printf("%s: %s", p.Severity, p)
		}
		s.say(report.Problem{Severity: level, Kind: "more", Message: fmt.Sprintf("and %d more: they are in the log and the job summary", len(of)-shown)})
	}
}

// annotation is p for the runner. A place in an inline list is in no file that it could point at: the message names it.
func annotation(p report.Problem) workflow.Annotation {
	title := "pullonce: " + p.Kind
	message := p.Message
	if p.File == pin.Inline {
		message = pin.Position{File: p.File, Line: p.Line, Column: p.Column}.String() + ": " + message
		p.File, p.Line, p.Column = "", 0, 0
	}
	if p.Hint != "" {
		message += " — " + p.Hint
	}
	return workflow.Annotation{
		Level: workflow.Level(p.Severity), Title: title, Message: message, File: p.File, Line: p.Line, Column: p.Column,
	}
}

// pinErrors are the findings of a pin list that can't be used.
type pinErrors struct{ pin.Errors }

func (e pinErrors) problems() []report.Problem {
	var problems []report.Problem
	for _, f := range e.Errors {
		problems = append(problems, problemOf(f, report.Error))
	}
	return problems
}

func problemOf(f pin.Finding, severity report.Severity) report.Problem {
	return report.Problem{
		Severity: severity, Kind: f.Kind, Message: f.Message, Hint: f.Hint, File: f.File, Line: f.Line, Column: f.Column,
	}
}

// scrub takes the secrets that are known to the run out of what a report says in words, for its file and its table.
func (s *session) scrub(r report.Report) report.Report {
	for i := range r.Problems {
		r.Problems[i].Message = s.runner.Scrub(r.Problems[i].Message)
	}
	for i := range r.Images {
		r.Images[i].Reason = s.runner.Scrub(r.Images[i].Reason)
	}
	for i := range r.Notes {
		r.Notes[i] = s.runner.Scrub(r.Notes[i])
	}
	return r
}

// finish tells of a run: problems first, then the table or the JSON report, the job summary, and the file that keeps the
// report. What can't be told is warned of: it changes nothing about what the run came to.
func (s *session) finish(r report.Report, asJSON bool) {
	s.sayAll(r.Problems)
	s.untold(s.writeReport(r, asJSON))
	if s.runner.Enabled() {
		md := r.Markdown()
		s.untold(s.runner.Summary(md.Head, md.Rows, md.Tail))
	}
	s.untold(s.keep(r.Mode, r.WriteJSON))
}

// untold warns of a report that did not reach its reader.
func (s *session) untold(err error) {
	if err != nil {
		s.say(report.Problem{Severity: report.Warning, Kind: "report", Message: report.Line(err)})
	}
}

func (s *session) writeReport(r report.Report, asJSON bool) error {
	if asJSON {
		return s.printJSON(r.WriteJSON)
	}
	return s.print(r.WriteTable)
}

// printJSON prints a JSON document. In a workflow the runner looks for "##[command]" anywhere in a line, so that what
// may look like one is spelled with an escape: the document stays the same to whoever parses it.
func (s *session) printJSON(write func(io.Writer) error) error {
	var b strings.Builder
	if err := write(&b); err != nil {
		return err
	}
	_, err := io.WriteString(s.Stdout, strings.ReplaceAll(b.String(), "##[", `##\u005b`))
	return err
}

// indented writes v as an indented JSON document.
func indented(v any) func(io.Writer) error {
	return func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
}

// print shows a person what write writes. In a workflow it goes through the runner's protocol, in whole lines, so that
// no text from outside can be a command.
func (s *session) print(write func(io.Writer) error) error {
	if !s.runner.Enabled() {
		return write(s.Stdout)
	}
	var b strings.Builder
	if err := write(&b); err != nil {
		return err
	}
	s.runner.Printf("%s", b.String())
	return s.runner.Err()
}

// printf writes one line to the log: for a person who follows, never a result.
func (s *session) printf(format string, args ...any) {
	if s.runner.Enabled() {
		s.runner.Printf(format, args...)
		return
	}
	fmt.Fprintf(s.Stderr, format+"\n", args...)
}
