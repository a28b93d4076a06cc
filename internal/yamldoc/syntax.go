package yamldoc

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"

	"github.com/pullonce/pullonce/internal/textfile"
)

// SyntaxError is what is wrong with a document that is no YAML.
type SyntaxError struct {
	// Line and Column count from 1, in the stream.
	Line, Column int
	// Template says that the document holds a template that nobody rendered, which is the usual cause; then Line and
	// Column are the template's.
	Template bool
	message  string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	if e.Template {
		return "a template is not resolved, and without that this is no YAML: render the file first"
	}
	return "no valid YAML here, or in the block that begins here: " + e.message
}

// syntaxLine is how the YAML package tells the line of an error.
var syntaxLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(.*)$`)

// syntaxError says what is wrong with text, which has before lines before it.
func syntaxError(text []byte, before int, err error) *SyntaxError {
	if e := findTemplate(text); e != nil {
		e.Line += before
		return e
	}
	e := &SyntaxError{Line: before + 1, Column: 1, message: err.Error()}
	m := syntaxLine.FindStringSubmatch(e.message)
	if m == nil {
		return e
	}
	e.message = m[2]
	if n, err := strconv.Atoi(m[1]); err == nil {
		e.Line = before + n
		// The package counts lines from 0 where the parser complains, from 1 where the scanner does.
		if strings.HasPrefix(e.message, "did not find expected") {
			e.Line++
		}
	}
	return e
}

// findTemplate finds the first "{{" outside of comments.
func findTemplate(text []byte) *SyntaxError {
	if !bytes.Contains(text, []byte("{{")) {
		return nil
	}
	line := 0
	for s := range strings.Lines(string(text)) {
		line++
		for _, w := range textfile.Words(s) {
			if i := strings.Index(w.Text, "{{"); i >= 0 {
				return &SyntaxError{Line: line, Column: w.Column + len([]rune(w.Text[:i])), Template: true}
			}
		}
	}
	return nil
}
