package image

// form is how an archive differs from the one that a store keeps, for the target that it goes to.
type form struct {
	naming naming
	folder string // its blobs are below this folder
	// indexLast has index.json and manifest.json behind the layers.
	indexLast bool
}

// naming is what an archive calls its image.
type naming int

const (
	byReference naming = iota // its tag, or the root's digest where it has none
	byDigest                  // the root's digest
	unnamed                   // nothing
)

// Unnamed is img with an archive that gives the image no name, for targets that name what they hold after it has been
// proven to be whole.
func (img Image) Unnamed() (Image, error) {
	img.form.naming = unnamed
	err := img.makeHead(Parts{})
	return img, err
}

// ByDigest is img with an archive that names it by the digest of its root alone, for containerd: a name that no other
// image can have, under which it can be proven to be whole before it takes over a tag.
func (img Image) ByDigest() (Image, error) {
	img.form.naming = byDigest
	err := img.makeHead(Parts{})
	return img, err
}

// Below is img with an archive whose blobs are below folder. Containerd's importer writes each member under the member's
// name and not its digest (core/images/archive/importer.go), and goes on where an earlier import of a member of that name
// broke off, whatever bytes that one had sent. A folder for each load keeps them apart. What reads an archive as an OCI
// layout by the paths of its blobs can't read this one.
func (img Image) Below(folder string) (Image, error) {
	img.form.folder = folder
	err := img.makeHead(Parts{})
	return img, err
}

// IndexLast is img with an archive that lists its image behind the layers, for importers that name an image when the stream
// ends: whatever cuts it off before, they have none to name. Containerd's take the members in any order.
func (img Image) IndexLast() (Image, error) {
	img.form.indexLast = true
	err := img.makeHead(Parts{})
	return img, err
}
