// Package compose owns where images stand in Compose files, and how Compose fills in the variables in them. It does not
// know which images are meant to be there.
package compose

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"go.yaml.in/yaml/v3"

	"github.com/pullonce/pullonce/internal/textfile"
	"github.com/pullonce/pullonce/internal/variable"
	"github.com/pullonce/pullonce/internal/yamldoc"
)

// Service is one service of a Compose file.
type Service struct {
	Name string
	// At is the name's node.
	At *yaml.Node
	// Image is the value that should be a reference, or nil.
	Image *yaml.Node
	// Policy is the value of pull_policy, or nil.
	Policy *yaml.Node
	// Built says that the service has a build: its image is made, not pulled.
	Built bool
	// Volumes are the sources of the service's image volumes.
	Volumes []*yaml.Node
}

// Services are the services of a Compose file, in order. A document without services has none.
func Services(d *yamldoc.Document) []Service {
	services := d.Get(d.Root, "services")
	if services == nil {
		return nil
	}
	var found []Service
	for _, entry := range d.Pairs(services) {
		s := Service{Name: entry.Key, At: entry.At}
		for _, p := range d.Pairs(entry.Value) {
			switch p.Key {
			case "image":
				s.Image = p.Value
			case "pull_policy":
				s.Policy = p.Value
			case "build":
				s.Built = !yamldoc.IsNull(p.Value)
			case "volumes":
				s.Volumes = imageVolumes(d, p.Value)
			}
		}
		found = append(found, s)
	}
	return found
}

// imageVolumes are the sources of those volumes that are images: {type: image, source: REFERENCE}.
func imageVolumes(d *yamldoc.Document, list *yaml.Node) []*yaml.Node {
	list = yamldoc.Resolve(list)
	if list.Kind != yaml.SequenceNode {
		return nil
	}
	var found []*yaml.Node
	for _, volume := range list.Content {
		kind, source := d.Get(volume, "type"), d.Get(volume, "source")
		if kind != nil && source != nil && yamldoc.Resolve(kind).Value == "image" {
			found = append(found, source)
		}
	}
	return found
}

// Lookup looks a variable up.
type Lookup = func(name string) (value string, ok bool)

// EnvError is that a ".env" file can't be understood.
type EnvError struct{ err error }

// Error implements error.
func (e EnvError) Error() string { return e.err.Error() }

// Unwrap is for errors.Is.
func (e EnvError) Unwrap() error { return e.err }

// Environment looks variables up as Compose does for a file in the folder dir: in the environment, then in the ".env" of
// that folder. An error is about that file, which envFile names: an EnvError, or that it can't be
// read. The Lookup works without it.
func Environment(fsys fs.FS, dir string, getenv Lookup) (lookup Lookup, envFile string, err error) {
	envFile = path.Join(dir, ".env")
	var values map[string]string
	text, err := textfile.Read(fsys, envFile, variable.MaxSize)
	switch {
	case err == nil:
		if values, err = dotenv(text, getenv); err != nil {
			err = EnvError{err}
		}
	case errors.Is(err, textfile.ErrMissing):
		err = nil
	}
	return func(name string) (string, bool) {
		if v, ok := getenv(name); ok {
			return v, true
		}
		v, ok := values[name]
		return v, ok
	}, envFile, err
}

// Fill fills in the variables of s. One that is not set and has no default is an error that says what to do.
func Fill(s string, lookup Lookup) (string, error) {
	filled, err := variable.Fill(s, lookup)
	if _, ok := errors.AsType[variable.UnsetError](err); ok {
		return "", fmt.Errorf("%w: set it, or render the file first with docker compose config", err)
	}
	return filled, err
}
