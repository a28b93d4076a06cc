package pin

import (
	"errors"
	"path"

	"go.yaml.in/yaml/v3"

	"github.com/pullonce/pullonce/internal/compose"
)

// compose reads the image of every service of a Compose file.
func (d *document) compose(top map[string]*yaml.Node) {
	services := compose.Services(d.Document)
	if len(services) == 0 {
		d.errorf(d.at(top["services"]), KindEmpty, "services holds no service")
		return
	}
	if include := top["include"]; include != nil {
		d.notef(d.at(include), KindSkipped, "include is not followed: name the included files too")
	}
	lookup := d.environment()
	for _, service := range services {
		d.service(service, lookup)
	}
}

// service reads one service. With build: its image is made, not pulled.
func (d *document) service(service compose.Service, lookup compose.Lookup) {
	switch {
	case service.Built:
		d.notef(d.at(service.At), KindSkipped, "service %q is built, not pulled: skipped", service.Name)
		return
	case service.Image == nil:
		d.notef(d.at(service.At), KindSkipped, "service %q has no image of its own: skipped", service.Name)
		return
	}
	at := d.at(service.Image)
	s, ok := d.scalar(service.Image, aReference)
	if !ok {
		return
	}
	filled, err := compose.Fill(s, lookup)
	if err != nil {
		d.errorf(at, KindRender, "%s: %v", quote(s), err)
		return
	}
	if ref, ok := d.reference(at, filled); ok {
		d.add(Pin{Position: at, Reference: ref})
	}
}

// environment looks variables up as Compose does; what is wrong with the ".env" beside the file is told.
func (d *document) environment() compose.Lookup {
	lookup, name, err := compose.Environment(d.fsys, path.Dir(d.file), d.getenv)
	if err != nil {
		kind := KindFile
		if _, ok := errors.AsType[compose.EnvError](err); ok {
			kind = KindSyntax
		}
		d.errorf(Position{File: name}, kind, "%v", err)
	}
	return lookup
}
