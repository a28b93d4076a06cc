package pin

import "go.yaml.in/yaml/v3"

// maxDepth bounds how deep a manifest may nest. Schemas of custom resources reach some dozens.
const maxDepth = 500

// isContainerList names the lists of containers in a Kubernetes pod spec.
func isContainerList(key string) bool {
	return key == "containers" || key == "initContainers" || key == "ephemeralContainers"
}

// kubernetes reads the image of every container in a manifest, wherever its pod spec stands: in a Pod, in the template
// of a workload, in an item of a List, in a custom resource.
func (d *document) kubernetes(n *yaml.Node, depth int) {
	if depth > maxDepth {
		d.errorf(d.at(n), KindLimit, "nested deeper than %d levels", maxDepth)
		return
	}
	if !d.visit(n) {
		return
	}
	switch target := resolve(n); target.Kind {
	case yaml.SequenceNode:
		for _, item := range target.Content {
			d.kubernetes(item, depth+1)
		}
	case yaml.MappingNode:
		for _, p := range d.pairs(target) {
			if list := resolve(p.value); isContainerList(p.key) && list.Kind == yaml.SequenceNode {
				d.containers(list)
			} else {
				d.kubernetes(p.value, depth+1)
			}
		}
	}
}

// containers reads a list of containers. One without an image gets it from elsewhere, as a patch does.
func (d *document) containers(list *yaml.Node) {
	for _, container := range list.Content {
		if !d.visit(container) {
			return
		}
		found := false
		for _, p := range d.pairs(container) {
			if p.key == "image" {
				found = true
				d.image(p.value)
			}
		}
		if !found {
			d.notef(d.at(container), KindSkipped, "a container without an image is skipped")
		}
	}
}
