package pin

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// text reads the text form: a reference a line, then key=value words. "#" at the start of a line or after white space
// begins a comment.
func (l *loader) text(file, text string) {
	line := 0
	for s := range strings.Lines(text) {
		if line++; l.full() {
			return
		}
		l.line(Position{File: file, Line: line}, words(s))
	}
}

// word is a run of characters without white space, and its column.
type word struct {
	text   string
	column int
}

// words takes a line apart, up to its comment.
func words(line string) []word {
	var found []word
	start, from, column := -1, 0, 0
	for i, r := range line {
		column++
		switch space := unicode.IsSpace(r); {
		case space && start >= 0:
			found = append(found, word{line[start:i], from})
			start = -1
		case space || start >= 0:
		case r == '#':
			return found
		default:
			start, from = i, column
		}
	}
	if start >= 0 {
		found = append(found, word{line[start:], from})
	}
	return found
}

// line reads one line of the text form.
func (l *loader) line(at Position, words []word) {
	if len(words) == 0 {
		return
	}
	for _, w := range words {
		if at.Column = w.column; isTemplate(w.text) {
			l.errorf(at, KindRender, "%s is not resolved: render the file first", quote(w.text))
			return
		}
	}
	at.Column = words[0].column
	ref, ok := l.reference(at, words[0].text)
	p := Pin{Position: at, Reference: ref}
	seen := map[string]bool{}
	for _, w := range words[1:] {
		at.Column = w.column
		key, value, isAttribute := strings.Cut(w.text, "=")
		switch {
		case !isAttribute:
			l.errorf(at, KindReference, "white space inside a reference, or a word that is not key=value: %s", quote(w.text))
			ok = false
		case seen[key]:
			l.errorf(at, KindAttribute, "%s is there twice", quote(key+"="))
			ok = false
		default:
			ok = l.attribute(&p, key, at, []written{{at, value}}) && ok
		}
		seen[key] = true
	}
	if ok {
		l.add(p)
	}
}

// inline reads the inline list: lines of the text form, or a JSON or YAML list.
func (l *loader) inline(text string) {
	text = strings.TrimPrefix(text, byteOrderMark)
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return
	}
	l.meet(inlineFile)
	pins, errs := len(l.pins), len(l.errors)
	// "[::1]:5000/a:1" begins like a JSON list but does not end like one.
	isList := strings.HasPrefix(trimmed, "- ") || strings.HasPrefix(trimmed, "[") && strings.HasSuffix(trimmed, "]")
	switch {
	case !utf8.ValidString(text):
		l.errorf(Position{File: inlineFile}, KindFile, "%v", errNoText)
	case isList:
		l.inlineYAML(text)
	default:
		l.text(inlineFile, text)
	}
	if len(l.pins) == pins && len(l.errors) == errs {
		l.errorf(Position{File: inlineFile}, KindEmpty, "empty list: it pins no image")
	}
}
