// Package audit owns the comparison of the images that will really be pulled, as rendered manifests, Compose files,
// Dockerfiles and lists name them, with the pin list. It is pure: it reads what it is given, and what it finds is data. It
// knows no registry and no runner.
//
// It exists because the chart moves past the pin one day: then the loaded image is one that nothing pulls, and every lane
// is back at the registry without a word.
package audit

import (
	"io"
	"io/fs"

	"github.com/pullonce/pullonce/internal/pin"
)

// Stdin is the path that stands for Options.Stdin, and the file in positions in it.
const Stdin = "-"

// Options say what is audited and against what.
type Options struct {
	// FS opens what Paths name, under the same rules as that of pin.Options.
	FS fs.FS
	// Paths are files and globs ("**" crosses folders), and Stdin.
	Paths []string
	// Stdin is what the path "-" reads; nil is empty.
	Stdin io.Reader
	// Getenv looks up the variables of Compose files; nil means that none is set. A ".env" beside the file comes second.
	Getenv func(name string) (value string, ok bool)
	// ImagePaths say where images stand besides the places that Kubernetes and Compose define: "spec.image" in any
	// document, or "Prometheus:spec.image" in objects of that kind. Segments may hold "*". A path ends in a reference, in a
	// mapping of repository, tag and so on, or in a list of them.
	ImagePaths []string
	// Pins are those that the audited images should be among, and Warnings what the pin list has to say of them.
	Pins     []pin.Pin
	Warnings []pin.Finding
	// AllowRegistries are the registries that images may come from, as in "ghcr.io", "ghcr.io/acme" or "*.example.com".
	// None allows all.
	AllowRegistries []string
}

// Result is what an audit came to.
type Result struct {
	// Findings are in the order of the files, and of the places in them; those about pins come last.
	Findings []Finding
	// Notes say what was passed over.
	Notes []pin.Finding
	// Images is how many different images the audited files name, and Places in how many places.
	Images, Places int
}

// Run reads all that is to be audited and compares it with the pins. The error is pin.Errors, with everything that can't
// be read; that no image was found is one of them, because an audit of nothing must not pass.
func Run(opts Options) (Result, error) {
	found, err := read(opts)
	if err != nil {
		return Result{}, err
	}
	allowed, err := parseRegistries(opts.AllowRegistries)
	if err != nil {
		return Result{}, err
	}
	c := newComparison(opts.Pins, allowed)
	for _, img := range found.images {
		c.image(img)
	}
	for _, wrong := range found.wrong {
		c.notAnImage(wrong)
	}
	c.pins(opts.Warnings)
	return Result{Findings: c.inOrder(found.files), Notes: found.notes, Images: len(found.images), Places: found.places}, nil
}
