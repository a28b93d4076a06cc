package pin

import (
	"strings"
	"unicode/utf8"

	"github.com/pullonce/pullonce/internal/textfile"
)

// text reads the text form: a reference a line, then key=value words. "#" at the start of a line or after white space
// begins a comment.
func (l *loader) text(file, text string) {
	line := 0
	for s := range strings.Lines(text) {
		if line++; l.full() {
			return
		}
		l.line(Position{File: file, Line: line}, textfile.Words(s))
	}
}

// line reads one line of the text form.
func (l *loader) line(at Position, words []textfile.Word) {
	if len(words) == 0 {
		return
	}
	for _, w := range words {
		if at.Column = w.Column; isTemplate(w.Text) {
			l.errorf(at, KindRender, "%s is not resolved: render the file first", quote(w.Text))
			return
		}
	}
	at.Column = words[0].Column
	ref, ok := l.reference(at, words[0].Text)
	p := Pin{Position: at, Reference: ref}
	seen := map[string]bool{}
	for _, w := range words[1:] {
		at.Column = w.Column
		key, value, isAttribute := strings.Cut(w.Text, "=")
		switch {
		case isAttribute && strings.ContainsAny(value[:min(1, len(value))], `"'`):
			l.errorf(at, KindAttribute, "quotes are not supported in %s: a value is one word", key)
			return
		case !isAttribute:
			l.errorf(at, KindReference, "white space inside a reference, or a word that is not key=value: %s", quote(w.Text))
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
	text = strings.TrimPrefix(text, textfile.ByteOrderMark)
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return
	}
	l.meet(Inline)
	pins, errs := len(l.pins), len(l.errors)
	// "[::1]:5000/a:1" begins like a JSON list but does not end like one.
	isList := strings.HasPrefix(trimmed, "- ") || strings.HasPrefix(trimmed, "[") && strings.HasSuffix(trimmed, "]")
	switch {
	case !utf8.ValidString(text):
		l.errorf(Position{File: Inline}, KindFile, "%v", textfile.ErrNotText)
	case isList:
		l.inlineYAML(text)
	default:
		l.text(Inline, text)
	}
	if len(l.pins) == pins && len(l.errors) == errs {
		l.errorf(Position{File: Inline}, KindEmpty, "empty list: it pins no image")
	}
}
