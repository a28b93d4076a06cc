package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/pullonce/pullonce/internal/audit"
	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/report"
)

// auditCommand compares what will really be pulled with the pin list.
type auditCommand struct {
	pinLists
	Lane            string   `placeholder:"NAME" help:"The lane whose pins count, as the lanes= globs of the pin list name it; empty is every pin."`
	Manifests       list     `placeholder:"FILE" help:"Rendered manifests, Compose files, Dockerfiles and lists: paths or globs, one a line; - is standard input."`
	ImagePaths      list     `placeholder:"PATH" help:"Where custom resources name images, one a line, as in Prometheus:spec.image."`
	AllowRegistries list     `placeholder:"HOST" help:"Registries that images may come from, one a line, as in ghcr.io/acme or *.example.com; none allows all."`
	FailOn          list     `placeholder:"KIND" help:"Kinds of findings that fail, one a line, or none, or all; default: not-an-image, drift, unpinned, registry-not-allowed."`
	JSON            bool     `name:"json" action:"-" help:"Print the findings as JSON."`
	Files           []string `arg:"" optional:"" name:"file" help:"More manifests; - is standard input."`
}

func (c *auditCommand) run(_ context.Context, s *session) (ExitCode, error) {
	fatal, err := failOn(c.FailOn)
	if err != nil {
		return 0, err
	}
	if len(c.Manifests)+len(c.Files) == 0 {
		return 0, s.nothingToAudit()
	}
	loaded, err := s.load(c.pinLists)
	if err != nil {
		return 0, err
	}
	result, err := audit.Run(audit.Options{
		FS: s.files(), Paths: slices.Concat(c.Manifests, c.Files), Stdin: s.Stdin, Getenv: s.variable,
		ImagePaths: words(c.ImagePaths), AllowRegistries: words(c.AllowRegistries),
		Pins: s.lane(loaded, c.Lane), Warnings: loaded.Warnings,
	})
	if wrong, ok := errors.AsType[pin.Errors](err); ok {
		return 0, pinErrors{wrong}
	}
	if err != nil {
		return 0, err
	}
	return s.finishAudit(newAudited(result, fatal), c.JSON)
}

// nothingToAudit says so, with an example of what would be right where it was asked.
func (s *session) nothingToAudit() error {
	hint := "helm template … | pullonce audit --pins images.txt -"
	if s.startedByAction() {
		hint = "render in an earlier step, as in helm template . > rendered.yaml, and pass manifests: rendered.yaml"
	}
	return usagef(hint, "nothing is given to audit: name files with manifests")
}

// kindNames are all kinds of findings, for a person.
func kindNames() string {
	var names []string
	for _, kind := range audit.Kinds() {
		names = append(names, string(kind))
	}
	return strings.Join(names, ", ")
}

// failOn reads the kinds that fail an audit.
func failOn(values []string) ([]audit.Kind, error) {
	var kinds []audit.Kind
	for _, word := range words(values) {
		switch kind := audit.Kind(word); {
		case word == "all":
			kinds = append(kinds, audit.Kinds()...)
		case word == "none":
		case slices.Contains(audit.Kinds(), kind):
			kinds = append(kinds, kind)
		default:
			return nil, usagef("fail-on takes none, all, or any of "+kindNames(), "unknown kind of finding %q", word)
		}
	}
	if len(words(values)) == 0 {
		return audit.DefaultFailOn(), nil
	}
	return kinds, nil
}

// audited is what an audit came to, as it is shown.
type audited struct {
	Mode     string         `json:"mode"`
	Result   report.Result  `json:"result"`
	Images   int            `json:"images"`
	Places   int            `json:"places"`
	Findings []auditFinding `json:"findings"`
	Notes    []pin.Finding  `json:"notes"`
}

// auditFinding is a finding and how grave it is to whoever asked.
type auditFinding struct {
	Severity report.Severity `json:"severity"`
	audit.Finding
}

func newAudited(r audit.Result, fatal []audit.Kind) audited {
	a := audited{
		Mode: "audit", Result: report.Success, Images: r.Images, Places: r.Places,
		Findings: []auditFinding{}, Notes: append([]pin.Finding{}, r.Notes...),
	}
	for _, f := range r.Findings {
		severity := report.Warning
		switch {
		case slices.Contains(fatal, f.Kind):
			severity, a.Result = report.Error, report.Failure
		case f.Kind == audit.Unused:
			severity = report.Notice
		}
		a.Findings = append(a.Findings, auditFinding{severity, f})
	}
	return a
}

// finishAudit tells of an audit: problems first, then the table or JSON, the job summary and the outputs.
func (s *session) finishAudit(a audited, asJSON bool) (ExitCode, error) {
	s.sayAll(a.problems())
	var err error
	if asJSON {
		err = s.printJSON(indented(a))
	} else {
		err = s.print(a.writeTable)
	}
	s.untold(errors.Join(err, s.keep(a.Mode, indented(a)), s.summarizeAudit(a)))
	err = s.write([]output{{"findings", a.brief()}, {"result", string(a.Result)}})
	if a.Result == report.Failure {
		return ExitNo, err
	}
	return ExitOK, err
}

func (a audited) problems() []report.Problem {
	var problems []report.Problem
	for _, f := range a.Findings {
		problems = append(problems, f.problem())
	}
	for _, note := range a.Notes {
		severity := report.Notice
		if note.Kind == pin.KindNoMatch {
			severity = report.Warning
		}
		problems = append(problems, problemOf(note, severity))
	}
	return problems
}

// problem places a finding where it is mended: what came through standard input is no file of the repository, so there
// it is the pin, if one is concerned.
func (f auditFinding) problem() report.Problem {
	p := report.Problem{Severity: f.Severity, Kind: string(f.Kind), Image: f.Image, Message: f.Message, Hint: f.Hint}
	if f.Source != "" {
		p.Message += ", rendered from " + f.Source
	}
	where := f.Position
	if where.File == audit.Stdin {
		p.Message += fmt.Sprintf(", in line %d of standard input", where.Line)
		where = pin.Position{}
		if f.Pin != nil {
			where = *f.Pin
		}
	}
	p.File, p.Line, p.Column = where.File, where.Line, where.Column
	return p
}

func (a audited) writeTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(a.Findings) > 0 {
		fmt.Fprintln(tw, "FINDING\tIMAGE\tWHERE")
	}
	for _, f := range a.Findings {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", f.Kind, report.Line(errors.New(f.Image)), f.Position)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "audit: %s\n", a.tally())
	return err
}

// tally is the closing line, as in "failure, 2 images in 3 places, 1 finding".
func (a audited) tally() string {
	return fmt.Sprintf("%s, %s in %s, %s", a.Result, count(a.Images, "image"), count(a.Places, "place"), count(len(a.Findings), "finding"))
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (s *session) summarizeAudit(a audited) error {
	if !s.runner.Enabled() {
		return nil
	}
	head := fmt.Sprintf("### pullonce audit: %s\n\n", a.tally())
	if len(a.Findings) > 0 {
		head += report.Heading("FINDING", "IMAGE", "WHERE", "WHAT")
	}
	rows := make([]string, len(a.Findings))
	for i, f := range a.Findings {
		p := f.problem()
		p.File = ""
		rows[i] = report.Row(string(f.Kind), f.Image, f.Position.String(), p.String())
	}
	return s.runner.Summary(head, rows, "")
}

// maxBrief bounds the findings in the output; the report beside the runner's files has all.
const maxBrief = 500

// brief is the findings for a later step, without the further places of each.
func (a audited) brief() []auditFinding {
	brief := slices.Clone(a.Findings[:min(len(a.Findings), maxBrief)])
	for i := range brief {
		brief[i].Also = nil
	}
	return brief
}
