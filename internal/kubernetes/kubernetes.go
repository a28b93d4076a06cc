// Package kubernetes owns where images stand in Kubernetes manifests. It does not know which images are meant to be there.
package kubernetes

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/pullonce/pullonce/internal/yamldoc"
)

// maxDepth bounds how deep a manifest may nest. Schemas of custom resources reach some dozens.
const maxDepth = 500

// ErrDepth is that a manifest nests too deeply.
var ErrDepth = fmt.Errorf("nested deeper than %d levels", maxDepth)

// Use is a place in a manifest that names, or could name, an image.
type Use struct {
	// At is the container or the volume.
	At *yaml.Node
	// Image is the value that should be a reference, or nil for a container that gets its image from elsewhere, as one in
	// a patch does.
	Image *yaml.Node
	// Policy is the value of imagePullPolicy, or of a volume's pullPolicy, or nil.
	Policy *yaml.Node
	// Volume says that this is an image volume and not a container.
	Volume bool
}

// IsManifest says whether a document is a Kubernetes object, by the two keys that each one has.
func IsManifest(d *yamldoc.Document) bool {
	return d.Get(d.Root, "apiVersion") != nil && d.Get(d.Root, "kind") != nil
}

// Uses calls found for each container, init and ephemeral container and each image volume of a manifest, wherever its pod
// spec stands: in a Pod, in the template of a workload, in an item of a List, in a custom resource. Nesting too deeply is
// ErrDepth, told to d.Tell.
func Uses(d *yamldoc.Document, found func(Use)) {
	walk(d, d.Root, 0, found)
}

func walk(d *yamldoc.Document, n *yaml.Node, depth int, found func(Use)) {
	if depth > maxDepth {
		if d.Tell != nil {
			d.Tell(n, ErrDepth)
		}
		return
	}
	if !d.Visit(n) {
		return
	}
	switch target := yamldoc.Resolve(n); target.Kind {
	case yaml.SequenceNode:
		for _, item := range target.Content {
			walk(d, item, depth+1, found)
		}
	case yaml.MappingNode:
		for _, p := range d.Pairs(target) {
			list := yamldoc.Resolve(p.Value)
			switch {
			case list.Kind != yaml.SequenceNode:
				walk(d, p.Value, depth+1, found)
			case isContainerList(p.Key):
				containers(d, list, found)
			default:
				if p.Key == "volumes" {
					volumes(d, list, found)
				}
				walk(d, p.Value, depth+1, found)
			}
		}
	}
}

// isContainerList names the lists of containers in a pod spec.
func isContainerList(key string) bool {
	return key == "containers" || key == "initContainers" || key == "ephemeralContainers"
}

func containers(d *yamldoc.Document, list *yaml.Node, found func(Use)) {
	for _, container := range list.Content {
		if !d.Visit(container) {
			return
		}
		found(Use{At: container, Image: d.Get(container, "image"), Policy: d.Get(container, "imagePullPolicy")})
	}
}

// volumes finds image volumes (KEP-4639): a source "image" with a reference. Without one it is something else.
func volumes(d *yamldoc.Document, list *yaml.Node, found func(Use)) {
	for _, volume := range list.Content {
		if !d.Visit(volume) {
			return
		}
		source := d.Get(volume, "image")
		if source == nil {
			continue
		}
		if reference := d.Get(source, "reference"); reference != nil {
			found(Use{At: volume, Image: reference, Policy: d.Get(source, "pullPolicy"), Volume: true})
		}
	}
}

// Objects calls found for each object of a manifest: the items of a List, or the document itself.
func Objects(d *yamldoc.Document, found func(object *yaml.Node)) {
	items := d.Get(d.Root, "items")
	if !IsManifest(d) || items == nil || yamldoc.Resolve(items).Kind != yaml.SequenceNode {
		found(d.Root)
		return
	}
	for _, item := range yamldoc.Resolve(items).Content {
		if !d.Visit(item) {
			return
		}
		found(item)
	}
}

// Kind is the kind of an object, or "".
func Kind(d *yamldoc.Document, object *yaml.Node) string {
	kind := d.Get(object, "kind")
	if kind == nil {
		return ""
	}
	name, err := yamldoc.String(kind, "a kind")
	if errors.Is(err, yamldoc.ErrForm) {
		return ""
	}
	return name
}
