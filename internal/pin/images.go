package pin

import (
	"go.yaml.in/yaml/v3"

	"github.com/pullonce/pullonce/internal/yamldoc"
)

// keyRef is the key of the reference in a map of an images list.
const keyRef = "ref"

// aReference is what errors call it.
const aReference = "an image reference"

// images reads the list under "images:": strings, or maps with a reference and its attributes.
func (d *document) images(n *yaml.Node) {
	at, list := d.at(n), yamldoc.Resolve(n)
	switch {
	case yamldoc.IsNull(list), list.Kind == yaml.SequenceNode && len(list.Content) == 0:
		d.errorf(at, KindEmpty, "empty list: it pins no image")
		return
	case list.Kind != yaml.SequenceNode:
		d.errorf(at, KindForm, "images is a list: write each image on its own line behind \"- \"")
		return
	}
	for _, item := range list.Content {
		if !d.Visit(item) {
			return
		}
		if target := yamldoc.Resolve(item); target.Kind == yaml.MappingNode && !yamldoc.IsTemplate(target) {
			d.imageMap(item)
		} else {
			d.image(item)
		}
	}
}

// image reads a bare reference.
func (d *document) image(n *yaml.Node) {
	s, ok := d.scalar(n, aReference)
	if !ok {
		return
	}
	if ref, ok := d.reference(d.at(n), s); ok {
		d.add(Pin{Position: d.at(n), Reference: ref})
	}
}

// imageMap reads a reference with attributes.
func (d *document) imageMap(n *yaml.Node) {
	before := len(d.errors)
	p := Pin{Position: d.at(n)}
	found := false
	for _, entry := range d.Pairs(n) {
		if entry.Key != keyRef {
			if values, ok := d.values(entry); ok {
				d.attribute(&p, entry.Key, d.at(entry.At), values)
			}
			continue
		}
		found = true
		p.Position = d.at(entry.Value)
		if s, ok := d.scalar(entry.Value, aReference); ok {
			p.Reference, _ = d.reference(p.Position, s)
		}
	}
	if !found {
		d.errorf(p.Position, KindEmpty, "an image without %s", keyRef)
	}
	if len(d.errors) == before {
		d.add(p)
	}
}

// values are those of an attribute: one string, or a list of them.
func (d *document) values(entry yamldoc.Pair) ([]written, bool) {
	nodes := []*yaml.Node{entry.Value}
	if list := yamldoc.Resolve(entry.Value); list.Kind == yaml.SequenceNode {
		if nodes = list.Content; len(nodes) == 0 {
			d.errorf(d.at(entry.At), KindEmpty, "empty list in %s", entry.Key)
			return nil, false
		}
	}
	var found []written
	for _, n := range nodes {
		if !d.Visit(n) {
			return nil, false
		}
		if s, ok := d.scalar(n, "a value of "+entry.Key); ok {
			found = append(found, written{d.at(n), s})
		}
	}
	return found, len(found) == len(nodes)
}
