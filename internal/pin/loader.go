package pin

import (
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/textfile"
)

// Limits on what a pin list may hold. They are far above any in use; they keep a wrong file from taking the machine.
const (
	maxFile   = 16 << 20 // bytes in one file
	maxPins   = 10_000   // mentions of images in all lists
	maxErrors = 1_000    // errors in all lists
	// maxReference is in bytes. Name, tag and digest are held to 255, 128 and 71 by the grammar.
	maxReference = 512
)

// Inline stands for a file's path in positions of the inline list.
const Inline = "images input"

// loader gathers what all lists hold and everything that is wrong with them.
type loader struct {
	fsys   fs.FS
	getenv func(string) (string, bool)

	pins          []Pin
	errors, notes []Finding
	files         map[string]int // the order in which files were first met
	read          map[string]bool
}

func newLoader(opts Options) *loader {
	l := &loader{fsys: opts.FS, getenv: opts.Getenv, files: map[string]int{}, read: map[string]bool{}}
	if l.getenv == nil {
		l.getenv = func(string) (string, bool) { return "", false }
	}
	return l
}

func (l *loader) errorf(at Position, kind, format string, args ...any) {
	l.advise(at, kind, "", format, args...)
}

// advise is errorf with a hint.
func (l *loader) advise(at Position, kind, hint, format string, args ...any) {
	l.meet(at.File)
	switch len(l.errors) {
	case maxErrors:
		l.errors = append(l.errors, newFinding(at, KindLimit, "more than %d errors: the rest is not shown", maxErrors))
	case maxErrors + 1:
	default:
		f := newFinding(at, kind, format, args...)
		f.Hint = hint
		l.errors = append(l.errors, f)
	}
}

func (l *loader) notef(at Position, kind, format string, args ...any) {
	l.notes = append(l.notes, newFinding(at, kind, format, args...))
}

// meet remembers the order of files.
func (l *loader) meet(file string) {
	if _, ok := l.files[file]; !ok {
		l.files[file] = len(l.files)
	}
}

// add keeps a pin.
func (l *loader) add(p Pin) {
	switch len(l.pins) {
	case maxPins:
		l.errorf(p.Position, KindLimit, "more than %d images in a pin list", maxPins)
	case maxPins + 1:
		return
	}
	l.pins = append(l.pins, p)
}

// full says whether reading on can't add anything.
func (l *loader) full() bool { return len(l.pins) > maxPins || len(l.errors) > maxErrors }

// reference reads what stands where an image reference belongs.
func (l *loader) reference(at Position, s string) (reference.Reference, bool) {
	switch {
	case s == "":
		l.errorf(at, KindEmpty, "empty value where an image reference belongs")
	case isTemplate(s):
		l.errorf(at, KindRender, "%s is not resolved: render the file first", quote(s))
	case len(s) > maxReference:
		l.errorf(at, KindReference, "%s is too long for an image reference", quote(s))
	default:
		ref, err := reference.Parse(s)
		if err == nil {
			return ref, true
		}
		l.advise(at, KindReference, adviceOn(s, err), "%v", err)
	}
	return reference.Reference{}, false
}

// isTemplate says whether s holds a variable or a template that somebody else should have filled in.
func isTemplate(s string) bool { return strings.Contains(s, "${") || strings.Contains(s, "{{") }

// entries takes one entry of Options.Paths apart.
func entries(entry string) []string {
	var list []string
	if strings.HasPrefix(strings.TrimSpace(entry), "[") && json.Unmarshal([]byte(entry), &list) == nil {
		return list
	}
	for line := range strings.Lines(entry) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// entry reads the files that one path or glob names.
func (l *loader) entry(entry string) {
	name, selector, selected := strings.Cut(entry, "#")
	name, selector = path.Clean(strings.TrimSpace(name)), strings.TrimSpace(selector)
	l.meet(name)
	var segments []string
	if selected {
		segments = strings.Split(selector, ".")
	}
	if slices.Contains(segments, "") {
		l.errorf(Position{File: name}, KindNoMatch, "selector %q has an empty segment: write it as in tools.*_image", selector)
		return
	}
	files := l.unread(l.glob(name), selector)
	pins, errs := len(l.pins), len(l.errors)
	for _, file := range files {
		l.file(file, segments)
	}
	if len(files) > 0 && len(l.pins) == pins && len(l.errors) == errs {
		l.errorf(Position{File: name}, KindEmpty, "empty list: it pins no image")
	}
}

// unread leaves out what was read with the same selector before: two globs may meet.
func (l *loader) unread(files []string, selector string) []string {
	return slices.DeleteFunc(files, func(file string) bool {
		id := file + "#" + selector
		was := l.read[id]
		l.read[id] = true
		return was
	})
}

// glob is the files that name stands for; none is an error that was told.
func (l *loader) glob(name string) []string {
	found, err := textfile.Glob(l.fsys, name)
	if err != nil {
		l.advise(Position{File: name}, KindNoMatch, severalIn(name), "%v", err)
	}
	return found
}

// file reads one file in the form that its name and the selector say.
func (l *loader) file(name string, selector []string) {
	l.meet(name)
	text, err := textfile.Read(l.fsys, name, maxFile)
	if err != nil {
		l.advise(Position{File: name}, KindFile, severalIn(name), "%v", err)
		return
	}
	switch ext := strings.ToLower(path.Ext(name)); {
	case selector != nil:
		l.selected(name, text, selector)
	case ext == ".yaml", ext == ".yml", ext == ".json":
		l.yaml(name, text)
	case isDockerfile(text):
		l.advise(Position{File: name}, KindForm, "compare it with a pin list: pullonce audit --pins images.txt "+name, "a Dockerfile is no pin list")
	default:
		l.text(name, text)
	}
}
