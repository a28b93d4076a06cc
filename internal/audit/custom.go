package audit

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pullonce/pullonce/internal/kubernetes"
	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/wildcard"
	"github.com/pullonce/pullonce/internal/yamldoc"
)

// imagePath says where custom resources name an image.
type imagePath struct {
	spec     string
	kind     string // a pattern; "" is any document
	segments []string
	matched  bool
}

// imagePath reads "Kind:path" or "path".
func (r *reader) imagePath(spec string) {
	kind, dotted, found := strings.Cut(strings.TrimSpace(spec), ":")
	if !found {
		kind, dotted = "", kind
	}
	p := &imagePath{spec: spec, kind: kind, segments: strings.Split(dotted, ".")}
	if slices.Contains(p.segments, "") || found && kind == "" {
		r.errors = append(r.errors, inputError("image-paths", pin.KindNoMatch, "%.150q has an empty part: write it as in Prometheus:spec.image", spec))
		return
	}
	r.paths = append(r.paths, p)
}

// unmatched tells of paths that lead nowhere: a typo would audit nothing without a word.
func (r *reader) unmatched() {
	for _, p := range r.paths {
		if !p.matched {
			r.notes = append(r.notes, inputError("image-paths", pin.KindNoMatch, "%.150q leads to nothing in what was audited", p.spec))
		}
	}
}

// custom reads what a path leads to in each object of the document.
func (d *document) custom(p *imagePath) {
	walk := d.Again()
	kubernetes.Objects(walk, func(object *yaml.Node) {
		if p.kind != "" && !wildcard.Match(p.kind, kubernetes.Kind(walk, object)) {
			return
		}
		walk.Find(object, p.segments, func(n *yaml.Node) {
			p.matched = true
			d.customValue(walk, n)
		})
	})
}

// customValue reads a reference, a mapping of its parts, or a list of both. Null is an option that was not taken.
func (d *document) customValue(walk *yamldoc.Document, n *yaml.Node) {
	switch target := yamldoc.Resolve(n); {
	case target.Kind == yaml.SequenceNode:
		for _, item := range target.Content {
			if !walk.Visit(item) {
				return
			}
			if kind := yamldoc.Resolve(item).Kind; kind == yaml.MappingNode && !yamldoc.IsTemplate(item) {
				d.imageMap(walk, item)
			} else {
				d.value(item, d.at(item), "")
			}
		}
	case target.Kind == yaml.MappingNode && !yamldoc.IsTemplate(target):
		d.imageMap(walk, n)
	case !yamldoc.IsNull(n):
		d.value(n, d.at(n), "")
	}
}

// imageMap reads a mapping as charts and operators write them: {registry, repository, tag, digest}, under these or other
// common names. Where a part is null or empty it is not there.
func (d *document) imageMap(walk *yamldoc.Document, n *yaml.Node) {
	values, places := map[string]string{}, map[string]place{}
	for _, entry := range walk.Pairs(n) {
		if value := yamldoc.Resolve(entry.Value); value.Kind == yaml.ScalarNode && !yamldoc.IsNull(value) {
			values[entry.Key], places[entry.Key] = value.Value, d.at(entry.Value)
		}
	}
	part := func(keys ...string) (value, key string) {
		for _, key := range keys {
			if values[key] != "" {
				return values[key], key
			}
		}
		return "", ""
	}
	s, key := part("repository", "image", "reference", "name")
	if key == "" {
		d.addWrong(d.at(n), "", "a mapping without a repository where an image belongs", "let the path lead to the mapping that has it")
		return
	}
	p := places[key]
	if policy, key := part("imagePullPolicy", "pullPolicy"); policy == "Always" {
		p.always = key + " is Always"
	}
	registry, _ := part("registry")
	tag, _ := part("tag", "version")
	digest, _ := part("digest", "sha")
	d.add(p, assemble(registry, s, tag, digest), "")
}

// assemble makes a reference of its parts. What the repository says itself, as in "redis:7", is not said again.
func assemble(registry, s, tag, digest string) string {
	if registry != "" {
		s = strings.TrimSuffix(registry, "/") + "/" + s
	}
	if strings.Contains(s, "@") {
		return s
	}
	if tag != "" && !strings.Contains(path.Base(s), ":") {
		s += ":" + tag
	}
	if digest == "" {
		return s
	}
	if !strings.Contains(digest, ":") {
		digest = "sha256:" + digest
	}
	return s + "@" + digest
}
