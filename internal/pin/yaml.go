package pin

import (
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yaml reads a YAML or JSON file without a selector: what it is shows in its top-level keys.
func (l *loader) yaml(file, text string) {
	for _, d := range l.documents(file, text) {
		d.shaped()
	}
}

// inlineYAML reads the inline list where it is one of YAML or JSON.
func (l *loader) inlineYAML(text string) {
	for _, d := range l.documents(inlineFile, text) {
		d.images(d.root)
	}
}

// shaped reads a document in the form that its top-level keys tell.
func (d *document) shaped() {
	top := map[string]*yaml.Node{}
	for _, p := range d.pairs(d.root) {
		top[p.key] = p.value
	}
	switch {
	case isNull(d.root):
	case top["apiVersion"] != nil && top["kind"] != nil:
		d.kubernetes(d.root, 0)
	case top["images"] != nil:
		d.images(top["images"])
	case top["services"] != nil:
		d.compose(top)
	default:
		d.errorf(d.at(d.root), KindForm, "neither a pin list (images:) nor a Compose file (services:) nor a Kubernetes manifest (apiVersion:, kind:): "+
			"say where images stand, as in %s#tools.*_image", d.file)
	}
}

// document is one document of a YAML file.
type document struct {
	*loader
	file string
	root *yaml.Node
	// budget bounds how many nodes may be visited. Without aliases a document has fewer nodes than bytes, so only
	// aliases of aliases come to its end.
	budget int
}

// documents parses a file. A syntax error is told, and then there are none.
func (l *loader) documents(file, text string) []*document {
	var found []*document
	dec := yaml.NewDecoder(strings.NewReader(text))
	for {
		var node yaml.Node
		err := dec.Decode(&node)
		switch {
		case errors.Is(err, io.EOF):
			return found
		case err != nil:
			l.syntax(file, text, err)
			return nil
		case len(node.Content) > 0:
			found = append(found, &document{loader: l, file: file, root: node.Content[0], budget: 10_000 + 2*len(text)})
		}
	}
}

// syntaxLine is how the YAML package tells the line of an error.
var syntaxLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(.*)$`)

// syntax tells of a syntax error. A template that was not rendered is the usual cause, and then that is what is wrong.
func (l *loader) syntax(file, text string, err error) {
	if at, ok := findTemplate(file, text); ok {
		l.errorf(at, KindRender, "a template is not resolved, and without that this is no YAML: render the file first")
		return
	}
	message, line := err.Error(), 1
	if m := syntaxLine.FindStringSubmatch(message); m != nil {
		message = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
			// The package counts lines from 0 where the parser complains, from 1 where the scanner does.
			if strings.HasPrefix(message, "did not find expected") {
				line++
			}
		}
	}
	l.errorf(Position{File: file, Line: line, Column: 1}, KindSyntax, "no valid YAML here, or in the block that begins here: %s", message)
}

// findTemplate finds the first "{{" outside of comments.
func findTemplate(file, text string) (Position, bool) {
	line := 0
	for s := range strings.Lines(text) {
		line++
		for _, w := range words(s) {
			if i := strings.Index(w.text, "{{"); i >= 0 {
				return Position{File: file, Line: line, Column: w.column + len([]rune(w.text[:i]))}, true
			}
		}
	}
	return Position{}, false
}

// visit counts one more visit of a node, and says whether it may be made.
func (d *document) visit(n *yaml.Node) bool {
	d.budget--
	if d.budget == 0 {
		d.errorf(d.at(n), KindLimit, "aliases of aliases: they stand for more than this file could hold")
	}
	return d.budget > 0
}

// at is where n stands; for an alias that is where it is used.
func (d *document) at(n *yaml.Node) Position {
	return Position{File: d.file, Line: n.Line, Column: n.Column}
}

// resolve follows an alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool {
	n = resolve(n)
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// pair is an entry of a mapping.
type pair struct {
	key   string
	at    Position
	value *yaml.Node
}

// pairs are the entries of a mapping in order, those that it merges in ("<<") behind its own. A key that is there twice
// is told. What is no mapping has none.
func (d *document) pairs(n *yaml.Node) []pair {
	found, seen := []pair(nil), map[string]bool{}
	d.collect(n, 0, func(p pair) {
		if !seen[p.key] {
			seen[p.key] = true
			found = append(found, p)
		}
	})
	return found
}

// maxMerge bounds how deep merges may nest.
const maxMerge = 20

func (d *document) collect(n *yaml.Node, depth int, keep func(pair)) {
	n = resolve(n)
	if n.Kind != yaml.MappingNode || depth > maxMerge {
		return
	}
	own := map[string]Position{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content) && d.visit(n); i += 2 {
		key, at := resolve(n.Content[i]), d.at(n.Content[i])
		if key.ShortTag() == "!!merge" {
			merged = append(merged, n.Content[i+1])
			continue
		}
		if first, ok := own[key.Value]; ok && key.Kind == yaml.ScalarNode {
			d.errorf(at, KindSyntax, "key %s is there twice: it also stands in line %d", quote(key.Value), first.Line)
		}
		own[key.Value] = at
		keep(pair{key.Value, at, n.Content[i+1]})
	}
	for _, m := range merged {
		sources := []*yaml.Node{m}
		if list := resolve(m); list.Kind == yaml.SequenceNode {
			sources = list.Content
		}
		for _, source := range sources {
			d.collect(source, depth+1, keep)
		}
	}
}

// scalar reads a string where what is expected. Everything else is told, and then ok is false.
func (d *document) scalar(n *yaml.Node, what string) (s string, ok bool) {
	at, n := d.at(n), resolve(n)
	switch tag := n.ShortTag(); {
	case isFlowTemplate(n):
		d.errorf(at, KindRender, "a template is not resolved: render the file first")
	case n.Kind == yaml.MappingNode:
		d.errorf(at, KindForm, "a mapping where %s belongs", what)
	case n.Kind == yaml.SequenceNode:
		d.errorf(at, KindForm, "a list where %s belongs", what)
	case tag == "!!null", n.Value == "":
		d.errorf(at, KindEmpty, "null or empty value where %s belongs", what)
	case tag != "!!str":
		d.errorf(at, KindForm, "%s is not a string where %s belongs: put it in quotes if it is meant", cut(n.Value, maxQuoted), what)
	default:
		return n.Value, true
	}
	return "", false
}

// isFlowTemplate says whether n is what YAML makes of an unquoted "{{ … }}": a mapping whose key is a mapping.
func isFlowTemplate(n *yaml.Node) bool {
	return n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle != 0 && len(n.Content) > 0 && n.Content[0].Kind == yaml.MappingNode
}
