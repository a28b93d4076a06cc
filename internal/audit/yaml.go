package audit

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pullonce/pullonce/internal/compose"
	"github.com/pullonce/pullonce/internal/kubernetes"
	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/yamldoc"
)

// document is one document of a file.
type document struct {
	*reader
	*yamldoc.Document
	file string
}

// yaml reads a stream of documents: manifests, Compose files, and others for what the image paths say.
func (r *reader) yaml(name string, input io.Reader) {
	for parsed, err := range yamldoc.Documents(input) {
		if wrong, ok := errors.AsType[*yamldoc.SyntaxError](err); ok {
			kind := pin.KindSyntax
			if wrong.Template {
				kind = pin.KindRender
			}
			r.errorf(pin.Position{File: name, Line: wrong.Line, Column: wrong.Column}, kind, "%v", err)
			continue
		}
		if err != nil {
			r.errorf(pin.Position{File: name}, pin.KindFile, "%v", err)
			return
		}
		d := &document{reader: r, Document: parsed, file: name}
		parsed.Tell = d.tell
		r.written = r.written || !yamldoc.IsNull(d.Root)
		d.uses()
	}
}

// tell tells of what a document can't be read for. A key that is there twice is none of our business: the last one counts.
func (d *document) tell(n *yaml.Node, problem error) {
	if _, ok := errors.AsType[yamldoc.DuplicateKeyError](problem); ok {
		return
	}
	d.errorf(d.at(n).Position, pin.KindLimit, "%v", problem)
}

// at is the place where n stands; for an alias that is where it is used.
func (d *document) at(n *yaml.Node) place {
	return place{Position: pin.Position{File: d.file, Line: n.Line, Column: n.Column}, source: d.Source}
}

// uses reads the images that a document names.
func (d *document) uses() {
	switch {
	case kubernetes.IsManifest(d.Document):
		kubernetes.Uses(d.Document, d.container)
	case d.Get(d.Root, "services") != nil:
		d.compose()
	}
	for _, p := range d.paths {
		d.custom(p)
	}
}

// container reads one use of an image in a manifest. A container without an image gets it from elsewhere.
func (d *document) container(use kubernetes.Use) {
	if use.Image == nil {
		return
	}
	p, field := d.at(use.Image), "imagePullPolicy"
	if use.Volume {
		field = "pullPolicy"
	}
	ifLatest := ""
	switch policy, err := policyOf(use.Policy); {
	case err != nil:
	case policy == "Always":
		p.always = field + " is Always"
	case policy == "":
		// The API server's default, from the field's documentation in the API reference.
		ifLatest = "it has no " + field + ", which with the tag latest means Always"
	}
	d.value(use.Image, p, ifLatest)
}

// policyOf is the policy that stands in n; none is "".
func policyOf(n *yaml.Node) (string, error) {
	if n == nil || yamldoc.IsNull(n) || yamldoc.Resolve(n).Value == "" {
		return "", nil
	}
	return yamldoc.String(n, "a pull policy")
}

// value reads a reference.
func (d *document) value(n *yaml.Node, p place, ifLatest string) {
	s, err := yamldoc.String(n, "an image")
	if errors.Is(err, yamldoc.ErrTemplate) {
		d.addWrong(p, "{{ … }}", "a template is not resolved", "render the file first")
		return
	}
	if err != nil && !errors.Is(err, yamldoc.ErrEmpty) {
		d.addWrong(p, yamldoc.Resolve(n).Value, err.Error(), "")
		return
	}
	d.add(p, s, ifLatest)
}

// compose reads the services that pull their image.
func (d *document) compose() {
	if include := d.Get(d.Root, "include"); include != nil {
		d.notef(d.at(include).Position, pin.KindSkipped, "include is not followed: name the included files too")
	}
	lookup := d.environment()
	for _, service := range compose.Services(d.Document) {
		for _, source := range service.Volumes {
			d.filled(source, d.at(source), lookup)
		}
		if service.Image == nil || service.Built {
			continue
		}
		p := d.at(service.Image)
		if policy, err := policyOf(service.Policy); err == nil && asksEveryTime(policy) {
			p.always = "pull_policy is " + policy
		}
		d.filled(service.Image, p, lookup)
	}
}

// asksEveryTime says whether a pull_policy asks the registry although the image is there ("pull_policy" in the Compose
// specification).
func asksEveryTime(policy string) bool {
	return policy == "always" || policy == "daily" || policy == "weekly" || strings.HasPrefix(policy, "every_")
}

// filled reads a reference with variables in it.
func (d *document) filled(n *yaml.Node, p place, lookup compose.Lookup) {
	s, err := yamldoc.String(n, "an image")
	if err != nil {
		d.value(n, p, "")
		return
	}
	image, err := compose.Fill(s, lookup)
	if err != nil {
		d.addWrong(p, s, unfilled(s, err), "")
		return
	}
	d.add(p, image, "")
}

func unfilled(s string, err error) string { return fmt.Sprintf("%.150q: %v", s, err) }

// environment looks variables up as Compose does. What comes from standard input has no file beside it.
func (d *document) environment() compose.Lookup {
	if d.file == Stdin {
		return d.opts.Getenv
	}
	lookup, name, err := compose.Environment(d.opts.FS, path.Dir(d.file), d.opts.Getenv)
	if err != nil {
		d.errorf(pin.Position{File: name}, pin.KindFile, "%v", err)
	}
	return lookup
}
