package pin

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// selected reads the scalars and lists of scalars that a selector leads to. Matching none in the whole file is an error.
func (l *loader) selected(file, text string, segments []string) {
	matched, before := false, len(l.errors)
	for _, d := range l.documents(file, text) {
		d.find(d.root, segments, func(n *yaml.Node) {
			matched = true
			d.selection(n)
		})
	}
	if !matched && len(l.errors) == before {
		l.errorf(Position{File: file}, KindNoMatch, "selector %q matches nothing", strings.Join(segments, "."))
	}
}

// find calls found for each node that the segments lead to. A segment is a glob for the keys of a mapping, and for the
// indexes of a list, which count from 0.
func (d *document) find(n *yaml.Node, segments []string, found func(*yaml.Node)) {
	if !d.visit(n) {
		return
	}
	if len(segments) == 0 {
		found(n)
		return
	}
	switch target := resolve(n); target.Kind {
	case yaml.MappingNode:
		for _, p := range d.pairs(target) {
			if matches(segments[0], p.key) {
				d.find(p.value, segments[1:], found)
			}
		}
	case yaml.SequenceNode:
		for i, item := range target.Content {
			if matches(segments[0], strconv.Itoa(i)) {
				d.find(item, segments[1:], found)
			}
		}
	}
}

// selection reads what a selector led to.
func (d *document) selection(n *yaml.Node) {
	list := resolve(n)
	switch {
	case list.Kind == yaml.MappingNode && !isFlowTemplate(list):
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
		if !d.visit(item) {
			return
		}
		d.image(item)
	}
}
