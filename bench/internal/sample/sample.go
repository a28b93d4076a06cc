// Package sample owns the images that the benchmark moves: what is in them, and a registry's storage that holds them. It
// knows nothing of how they are moved.
//
// They are made of the machine's own files, those below /usr that a Debian package put there: real programs, libraries,
// scripts, documents and icons, which compress as real images do. Which of them go where is chosen by a seeded generator, so
// the same machine gives the same images; their digests stand in the report.
package sample

import "math"

// Spec says what an image is to be.
type Spec struct {
	// Name is its repository below "bench/", and what reports call it.
	Name string
	// Bytes and Files are what it unpacks to, about.
	Bytes int64
	Files int
	// Layers are the shares of its layers of both, from the lowest up.
	Layers []float64
	// Base says that its first layers are those of all images with this name for their base; they come on top of Bytes.
	Base *Spec
}

// MB is a megabyte.
const MB = 1_000_000

// The names of the images, and sets of images, that questions are asked about.
const (
	Small = "small"
	M     = "M"
	L     = "L"
	Set   = "set"  // four with a shared base
	Five  = "five" // the set and the small one, for what a warm prime costs
)

// Names are all of them.
func Names() []string { return []string{Small, M, L, Set, Five} }

// Specs are the images to be made for a name; none if nothing is called that, or it is of images with other names. Layers are of uneven size, as real ones: a base, what was
// installed, then ever less.
func Specs(name string) []Spec {
	switch name {
	case Small:
		return []Spec{{Name: "small", Bytes: 10 * MB, Files: 400, Layers: []float64{0.7, 0.25, 0.05}}}
	case M:
		return []Spec{{Name: "m", Bytes: 259 * MB, Files: 9_000, Layers: []float64{0.31, 0.02, 0.40, 0.17, 0.08, 0.02}}}
	case L:
		return []Spec{{Name: "l", Bytes: 1_440 * MB, Files: 41_000, Layers: []float64{0.08, 0.12, 0.25, 0.18, 0.14, 0.09, 0.06, 0.05, 0.02, 0.01}}}
	case Set:
		return []Spec{member("set-a", 80), member("set-b", 60), member("set-c", 70), member("set-d", 50)}
	default:
		return nil
	}
}

func member(name string, megabytes int64) Spec {
	base := Spec{Name: "base", Bytes: 110 * MB, Files: 3_800, Layers: []float64{0.7, 0.3}}
	return Spec{Name: name, Bytes: megabytes * MB, Files: int(megabytes) * 33, Layers: []float64{0.6, 0.3, 0.1}, Base: &base}
}

// layer is a layer to be made.
type layer struct {
	seed  uint64
	bytes int64
	files int
}

// layers are those of the image, from the lowest up. Layers of one seed are one layer.
func (s Spec) layers() []layer {
	var all []layer
	if s.Base != nil {
		all = s.Base.layers()
	}
	for i, share := range s.Layers {
		all = append(all, layer{
			seed: seedOf(s.Name, i), bytes: int64(math.Round(share * float64(s.Bytes))), files: max(1, int(math.Round(share*float64(s.Files)))),
		})
	}
	return all
}
