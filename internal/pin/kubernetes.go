package pin

import "github.com/pullonce/pullonce/internal/kubernetes"

// kubernetes reads the image of every container in a manifest. A container without one gets it from elsewhere, as a patch
// does.
func (d *document) kubernetes() {
	kubernetes.Uses(d.Document, func(use kubernetes.Use) {
		switch {
		case use.Volume:
		case use.Image == nil:
			d.notef(d.at(use.At), KindSkipped, "a container without an image is skipped")
		default:
			d.image(use.Image)
		}
	})
}
