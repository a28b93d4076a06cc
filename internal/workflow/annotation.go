package workflow

import (
	"strconv"

	"github.com/sethvargo/go-githubactions"
)

// Level is the level of an annotation.
type Level string

// The levels of annotations.
const (
	Notice  Level = "notice"
	Warning Level = "warning"
	Error   Level = "error"
)

const (
	// maxMessage is where the runner cuts the message of an annotation, in UTF-16 units (ExecutionContext.cs).
	maxMessage = 4096
	// maxTitle is what the Checks API takes as the title of an annotation, in characters.
	maxTitle = 255
)

// Annotation is one problem that a person should see beside the run. Of each level the runner shows the first ten of a
// step; the rest is in the log alone.
type Annotation struct {
	Level   Level
	Title   string
	Message string
	// File is the path of the file at fault, relative to the workspace, or "".
	File string
	// Line and Column count from 1; 0 is unknown. Without File, Line does not count; without Line, neither does Column.
	Line, Column int
}

// Annotate issues a as a command. Message may have several lines and may be foreign text; it is cut where the runner
// would cut it, with a mark.
func (r *Runner) Annotate(a Annotation) {
	properties := githubactions.CommandProperties{}
	if title := cut(oneLine(r.clean(a.Title)), maxTitle); title != "" {
		properties["title"] = title
	}
	if a.File != "" {
		properties["file"] = r.clean(a.File)
		if a.Line > 0 {
			properties["line"] = strconv.Itoa(a.Line)
		}
		if a.Line > 0 && a.Column > 0 {
			properties["col"] = strconv.Itoa(a.Column)
		}
	}
	r.issue(string(a.Level), cut(r.clean(a.Message), maxMessage), properties)
}
