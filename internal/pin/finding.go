package pin

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Position is a place in a pin list.
type Position struct {
	// File is the path as it was given, or Inline.
	File string `json:"file"`
	// Line and Column count from 1, columns in characters. 0 means the file as a whole.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// String is "file:line:column", as far as they are known.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// The kinds of findings: short fixed words for programs.
const (
	KindFile      = "file"      // a file is missing, unreadable, too large or no text
	KindNoMatch   = "no-match"  // a glob or a selector matches nothing
	KindSyntax    = "syntax"    // no valid YAML, or a key that is there twice
	KindForm      = "form"      // YAML of a form that holds no pins
	KindEmpty     = "empty"     // an empty list, a null or an empty value
	KindReference = "reference" // no valid image reference
	KindAttribute = "attribute" // lanes, platforms, name, nodes or type are wrong, or a key is unknown
	KindRender    = "render"    // an unresolved variable or template
	KindConflict  = "conflict"  // one repository and tag with two digests
	KindLimit     = "limit"     // more than a pin list may hold

	KindDuplicate = "duplicate" // note: the same image more than once
	KindSkipped   = "skipped"   // note: something that names no image to pull

	KindMutableTag = "mutable-tag" // warning: latest, or no tag
)

// Finding is one thing to say about a pin list, and where.
type Finding struct {
	Position
	Kind    string `json:"kind"`
	Message string `json:"message"`
	// Hint is one line that says what to do, or "".
	Hint string `json:"hint,omitempty"`
}

// String is "file:line:column: message".
func (f Finding) String() string { return f.Position.String() + ": " + f.Message }

// Errors is everything that is wrong with a pin list, in the order of the lists and of the places in them. It is never
// empty as an error.
type Errors []Finding

// Error is one finding a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, f := range e {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// Bounds on what is said, in bytes: what a file holds may be long.
const (
	maxMessage = 400
	maxQuoted  = 150
)

func newFinding(at Position, kind, format string, args ...any) Finding {
	return Finding{Position: at, Kind: kind, Message: cut(fmt.Sprintf(format, args...), maxMessage)}
}

// quote is what somebody wrote, in quotes.
func quote(s string) string { return strconv.Quote(cut(s, maxQuoted)) }

// cut shortens s to about most bytes, between two characters.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// inOrder sorts findings by file, in the order the files were read, then by place, and drops repetitions.
func inOrder(findings []Finding, files map[string]int) []Finding {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(files[a.File], files[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(findings)
}
