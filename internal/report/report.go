// Package report owns what a run came to: which image came from where, what went wrong, and how that reads as a
// table, as Markdown and as JSON. It does not know how any of it was done.
package report

import (
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Severity orders problems; its values are the runner's annotation levels.
type Severity string

// The severities, least first.
const (
	Notice  Severity = "notice"
	Warning Severity = "warning"
	Error   Severity = "error"
)

// Problem is one thing that a person should know, in a form that feeds text, annotations, JSON and the summary.
type Problem struct {
	Severity Severity `json:"severity"`
	// Kind is a short fixed word for programs: "miss", "corrupt", "pull", "load", "pin-list", "unavailable" …
	Kind string `json:"kind"`
	// Image is the image concerned, in familiar form, or "".
	Image string `json:"image,omitempty"`
	// Message is one line: what went wrong and why.
	Message string `json:"message"`
	// Hint is one line that says what to do, or "".
	Hint string `json:"hint,omitempty"`
	// File, Line and Column say where; Line and Column count from 1, 0 is unknown.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// String is the problem in one line: where, what, and what to do.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		for _, n := range []int{p.Line, p.Column} {
			if n > 0 {
				b.WriteString(":" + strconv.Itoa(n))
			}
		}
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// Source says where an image came from.
type Source string

// The sources of an image.
const (
	Present  Source = "present"  // it was in the target already
	Cache    Source = "cache"    // from the store
	Registry Source = "registry" // pulled
	Stored   Source = "stored"   // for the store alone: no lane loads it
	Nowhere  Source = "none"     // it could not be had
)

// Image is the row of one image, platform and, in a lane, target.
type Image struct {
	Name      string `json:"name"`
	Reference string `json:"reference"`
	Platform  string `json:"platform"`
	Key       string `json:"key,omitempty"`
	Target    string `json:"target,omitempty"`
	Digest    string `json:"digest,omitempty"`
	Source    Source `json:"source"`
	// Outcome is one word for what was done: "saved", "cached", "loaded", "present", "tagged", "failed", "skipped".
	Outcome string `json:"outcome"`
	// Reason says why, where the outcome does not speak for itself.
	Reason string `json:"reason,omitempty"`
	// Size is the image's size in bytes, compressed, as the registry keeps it.
	Size int64 `json:"size"`
	// Started is when the work on the image began, from the start of the run. Work that was done in parts is counted back from
	// its end, as if it had been done at a stretch.
	Started time.Duration `json:"started_ns"`
	// Elapsed is the time spent on the image.
	Elapsed time.Duration `json:"elapsed_ns"`
	// Attempts counts the tries against the registry; 0 means that it was not asked.
	Attempts int `json:"attempts"`
}

// Result is what a run came to, in one word.
type Result string

// The results of a run.
const (
	Success  Result = "success"  // all that was asked for holds
	Degraded Result = "degraded" // a lane went on without some of it
	Failure  Result = "failure"  // the answer is no
)

// Report is what a run came to.
type Report struct {
	Mode     string    `json:"mode"`
	Result   Result    `json:"result"`
	Images   []Image   `json:"images"`
	Problems []Problem `json:"problems"`
	// Notes are lines for people that are no problem: what is left of a quota, how much the set takes.
	Notes   []string      `json:"notes,omitempty"`
	Elapsed time.Duration `json:"elapsed_ns"`
}

// Log collects problems as they arise. Safe for concurrent use; the zero value works.
type Log struct {
	mu       sync.Mutex
	problems []Problem
}

// Add keeps p.
func (l *Log) Add(p Problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problems = append(l.problems, p)
}

// Problems are those added so far, in order.
func (l *Log) Problems() []Problem {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Problem(nil), l.problems...)
}

// maxLine bounds the text of a foreign error in a message, in bytes.
const maxLine = 1000

// Line is err in one line of bounded length, whatever a registry or a daemon put into it.
func Line(err error) string {
	line := strings.Join(strings.FieldsFunc(err.Error(), isBreak), " ")
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "") + "…"
	}
	return line
}

func isBreak(r rune) bool { return unicode.IsControl(r) || r == 0x2028 || r == 0x2029 }
