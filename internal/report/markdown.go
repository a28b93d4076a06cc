package report

import (
	"fmt"
	"strings"
)

// Markdown is a report in the pieces of a job summary: rows can be dropped from the middle when the runner's limit
// is near, and head and tail stay.
type Markdown struct {
	Head string
	Rows []string
	Tail string
}

// Markdown renders the report for a job summary.
func (r Report) Markdown() Markdown {
	md := Markdown{Head: fmt.Sprintf("### pullonce %s: %s\n\n%s in %s\n\n", r.Mode, r.Result, r.tally(), Duration(r.Elapsed))}
	if len(r.Images) > 0 {
		md.Head += Heading(columns...)
	}
	for _, img := range r.Images {
		md.Rows = append(md.Rows, Row(img.cells()...))
	}
	md.Tail = r.timeline() + noteList(r.Notes) + problemList(r.Problems)
	return md
}

func noteList(notes []string) string {
	if len(notes) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n")
	for _, note := range notes {
		fmt.Fprintf(&b, "- %s\n", escape(note))
	}
	return b.String()
}

// maxListed bounds the problems in a summary; the log has them all.
const maxListed = 50

func problemList(problems []Problem) string {
	if len(problems) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n")
	for _, p := range problems[:min(len(problems), maxListed)] {
		fmt.Fprintf(&b, "- **%s** %s\n", p.Severity, escape(p.String()))
	}
	if more := len(problems) - maxListed; more > 0 {
		fmt.Fprintf(&b, "- and %d more: see the log\n", more)
	}
	return b.String()
}

// Heading is the first two lines of a Markdown table.
func Heading(cells ...string) string {
	return Row(cells...) + "|" + strings.Repeat(" --- |", len(cells)) + "\n"
}

// Row is one line of a Markdown table; what is in a cell stays in it.
func Row(cells ...string) string {
	escaped := make([]string, len(cells))
	for i, cell := range cells {
		escaped[i] = escape(cell)
	}
	return "| " + strings.Join(escaped, " | ") + " |\n"
}

// escape keeps text from outside inside its cell: no markup, no HTML, one line.
func escape(s string) string {
	return markup.Replace(strings.Join(strings.Fields(s), " "))
}

var markup = strings.NewReplacer(
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, `\`, `\\`,
)
