package workflow

import (
	"errors"
	"fmt"
	"strings"

	"github.com/actions-go/toolkit/core"
)

// maxSummary is how large the summary file of a step may be, in bytes: the runner drops a larger one whole
// (FileCommandManager.cs, CreateStepSummaryCommand).
const maxSummary = 1 << 20

// Summary appends Markdown to the job summary: head, rows, tail, each of them whole lines. What the step wrote before
// counts towards the runner's limit. Where they don't all fit, rows are left out from the end, and a line says how many;
// then the tail, and then the end of the head. Secrets are scrubbed. Without GITHUB_STEP_SUMMARY it is ErrNoFile.
func (r *Runner) Summary(head string, rows []string, tail string) error {
	// appendTo holds the lock while it has the text made.
	clean := func(text string) string { return wholeLines(printable(r.secrets.scrub(text))) }
	err := r.appendTo("GITHUB_STEP_SUMMARY", func(size int64) (string, error) {
		page := page{head: clean(head), tail: clean(tail), rows: make([]string, len(rows))}
		for i, row := range rows {
			page.rows[i] = clean(row)
		}
		return page.fit(maxSummary - int(min(size, maxSummary)))
	})
	if err != nil {
		return fmt.Errorf("writing the job summary: %w", err)
	}
	return nil
}

func wholeLines(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// page is a part of the job summary in which the rows matter less than what stands around them.
type page struct {
	head string
	rows []string
	tail string
}

// fit renders as much of the page as room bytes hold.
func (p page) fit(room int) (string, error) {
	if len(p.render(len(p.rows))) <= room {
		return p.render(len(p.rows)), nil
	}
	for kept := p.guess(room); kept >= 0; kept-- {
		if text := p.render(kept); len(text) <= room {
			return text, nil
		}
	}
	if p.tail != "" {
		return page{head: p.head, rows: p.rows}.fit(room)
	}
	return cutLines(p.head, room)
}

// guess is a number of rows that is never too small: those that would fit if nothing had to say what is missing.
func (p page) guess(room int) int {
	room -= len(p.head) + len(p.tail)
	for i, row := range p.rows {
		if room -= len(row); room < 0 {
			return i
		}
	}
	return max(len(p.rows)-1, 0)
}

// render is the page with the first kept rows. The builder is actions-go/toolkit's; its Write is not used, as that takes
// the file from the process environment and knows no limit.
func (p page) render(kept int) string {
	var summary core.Summary
	summary.AddRaw(p.head)
	for _, row := range p.rows[:kept] {
		summary.AddRaw(row)
	}
	if missing := len(p.rows) - kept; missing > 0 {
		summary.AddRaw(fmt.Sprintf("\n%d of %d rows are left out: a job summary holds %d KiB.\n\n", missing, len(p.rows), maxSummary>>10))
	}
	return summary.AddRaw(p.tail).Stringify()
}

// cutLines keeps the first lines of text that fit, and says that more was there.
func cutLines(text string, room int) (string, error) {
	const mark = "\nThe rest is left out: the job summary is full.\n"
	room -= len(mark)
	if room < 0 {
		return "", errors.New("no room is left in it")
	}
	return text[:strings.LastIndexByte(text[:min(room, len(text))], '\n')+1] + mark, nil
}
