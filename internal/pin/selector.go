package pin

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pullonce/pullonce/internal/yamldoc"
)

// selected reads the scalars and lists of scalars that a selector leads to. Matching none in the whole file is an error.
func (l *loader) selected(file, text string, segments []string) {
	matched, before := false, len(l.errors)
	for _, d := range l.documents(file, text) {
		d.Find(d.Root, segments, func(n *yaml.Node) {
			matched = true
			d.selection(n)
		})
	}
	if !matched && len(l.errors) == before {
		l.errorf(Position{File: file}, KindNoMatch, "selector %q matches nothing", strings.Join(segments, "."))
	}
}

// selection reads what a selector led to.
func (d *document) selection(n *yaml.Node) {
	list := yamldoc.Resolve(n)
	switch {
	case list.Kind == yaml.MappingNode && !yamldoc.IsTemplate(list):
		d.errorf(d.at(n), KindForm, "the selector ends in a mapping: it needs another segment")
		return
	case list.Kind != yaml.SequenceNode:
		d.image(n)
		return
	}
	if len(list.Content) == 0 {
		d.errorf(d.at(n), KindEmpty, "empty list: it pins no image")
	}
	for _, item := range list.Content {
		if !d.Visit(item) {
			return
		}
		d.image(item)
	}
}
