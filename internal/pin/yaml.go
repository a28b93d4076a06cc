package pin

import (
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pullonce/pullonce/internal/kubernetes"
	"github.com/pullonce/pullonce/internal/yamldoc"
)

// yaml reads a YAML or JSON file without a selector: what it is shows in its top-level keys.
func (l *loader) yaml(file, text string) {
	for _, d := range l.documents(file, text) {
		d.shaped()
	}
}

// inlineYAML reads the inline list where it is one of YAML or JSON.
func (l *loader) inlineYAML(text string) {
	for _, d := range l.documents(Inline, text) {
		d.images(d.Root)
	}
}

// shaped reads a document in the form that its top-level keys tell.
func (d *document) shaped() {
	top := map[string]*yaml.Node{}
	for _, p := range d.Pairs(d.Root) {
		top[p.Key] = p.Value
	}
	switch {
	case yamldoc.IsNull(d.Root):
	case kubernetes.IsManifest(d.Document):
		d.kubernetes()
	case top["images"] != nil:
		d.images(top["images"])
	case top["services"] != nil:
		d.compose(top)
	default:
		d.errorf(d.at(d.Root), KindForm, "neither a pin list (images:) nor a Compose file (services:) nor a Kubernetes manifest (apiVersion:, kind:): "+
			"say where images stand, as in %s#tools.*_image", d.file)
	}
}

// document is one document of a YAML file.
type document struct {
	*loader
	*yamldoc.Document
	file string
}

// documents parses a file. A syntax error is told, and then there are none.
func (l *loader) documents(file, text string) []*document {
	var found []*document
	for parsed, err := range yamldoc.Documents(strings.NewReader(text)) {
		if err != nil {
			l.syntax(file, err)
			return nil
		}
		d := &document{loader: l, Document: parsed, file: file}
		parsed.Tell = d.tell
		found = append(found, d)
	}
	return found
}

// syntax tells of a syntax error.
func (l *loader) syntax(file string, err error) {
	at, kind := Position{File: file, Line: 1, Column: 1}, KindSyntax
	if wrong, ok := errors.AsType[*yamldoc.SyntaxError](err); ok {
		at.Line, at.Column = wrong.Line, wrong.Column
		if wrong.Template {
			kind = KindRender
		}
	}
	l.errorf(at, kind, "%v", err)
}

// tell tells of what is wrong with a document beyond its syntax.
func (d *document) tell(n *yaml.Node, problem error) {
	kind := KindLimit
	if _, ok := errors.AsType[yamldoc.DuplicateKeyError](problem); ok {
		kind = KindSyntax
	}
	d.errorf(d.at(n), kind, "%v", problem)
}

// at is where n stands; for an alias that is where it is used.
func (d *document) at(n *yaml.Node) Position {
	return Position{File: d.file, Line: n.Line, Column: n.Column}
}

// scalar reads a string where what is expected. Everything else is told, and then ok is false.
func (d *document) scalar(n *yaml.Node, what string) (s string, ok bool) {
	s, err := yamldoc.String(n, what)
	if err != nil {
		kinds := map[error]string{yamldoc.ErrTemplate: KindRender, yamldoc.ErrEmpty: KindEmpty, yamldoc.ErrForm: KindForm}
		for is, kind := range kinds {
			if errors.Is(err, is) {
				d.errorf(d.at(n), kind, "%v", err)
			}
		}
	}
	return s, err == nil
}
