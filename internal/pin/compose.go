package pin

import (
	"errors"
	"path"

	"go.yaml.in/yaml/v3"
)

// compose reads the image of every service of a Compose file.
func (d *document) compose(top map[string]*yaml.Node) {
	if services := resolve(top["services"]); services.Kind != yaml.MappingNode || len(services.Content) == 0 {
		d.errorf(d.at(top["services"]), KindEmpty, "services holds no service")
		return
	}
	if include := top["include"]; include != nil {
		d.notef(d.at(include), KindSkipped, "include is not followed: name the included files too")
	}
	lookup := d.environment()
	for _, service := range d.pairs(top["services"]) {
		d.service(service, lookup)
	}
}

// service reads one service. With build: its image is made, not pulled.
func (d *document) service(service pair, lookup func(string) (string, bool)) {
	var image *yaml.Node
	for _, p := range d.pairs(service.value) {
		switch {
		case p.key == "build" && !isNull(p.value):
			d.notef(service.at, KindSkipped, "service %q is built, not pulled: skipped", service.key)
			return
		case p.key == "image":
			image = p.value
		}
	}
	if image == nil {
		d.notef(service.at, KindSkipped, "service %q has no image of its own: skipped", service.key)
		return
	}
	s, ok := d.scalar(image, aReference)
	if !ok {
		return
	}
	at := d.at(image)
	filled, err := interpolate(s, lookup)
	if err != nil {
		d.errorf(at, KindRender, "%s: %v", quote(s), err)
		return
	}
	if ref, ok := d.reference(at, filled); ok {
		d.add(Pin{Position: at, Reference: ref})
	}
}

// environment looks variables up as Compose does: in the environment, then in the ".env" beside the file.
func (d *document) environment() func(string) (string, bool) {
	name := path.Join(path.Dir(d.file), ".env")
	var file map[string]string
	switch text, err := readText(d.fsys, name); {
	case err == nil:
		if file, err = dotenv(text, d.getenv); err != nil {
			d.errorf(Position{File: name}, KindSyntax, "%v", err)
		}
	case !errors.Is(err, errNoFile):
		d.errorf(Position{File: name}, KindFile, "%v", err)
	}
	return func(name string) (string, bool) {
		if v, ok := d.getenv(name); ok {
			return v, true
		}
		v, ok := file[name]
		return v, ok
	}
}
