// Package pin owns the pin list: its grammars, positions, canonical references and lanes. It reads files through fs.FS
// and knows no network and no keys.
package pin

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/wildcard"
)

// Pin is one image reference and who needs it.
type Pin struct {
	// Position is where the reference stands; for an image that stands in several places, the first.
	Position
	Reference reference.Reference `json:"reference"`
	// Lanes are globs of the lanes that need the image; none means every lane.
	Lanes []string `json:"lanes,omitempty"`
	// Platforms are those that the image is needed for; none means those of the run.
	Platforms []platform.Platform `json:"platforms,omitempty"`
	// Name is for display only.
	Name string `json:"name,omitempty"`
	// Nodes are roles of cluster nodes that the image goes to; none means every node.
	Nodes []string `json:"nodes,omitempty"`
	// Artifact says that the reference names an OCI artifact that is no image, such as a chart: it is kept in the store
	// and never loaded.
	Artifact bool `json:"artifact,omitempty"`
}

// String is the pin as a line of the text form, in canonical spelling; reading it gives the pin again.
func (p Pin) String() string {
	words := []string{p.Reference.String()}
	add := func(key string, values ...string) {
		if value := strings.Join(values, ","); value != "" {
			words = append(words, key+"="+value)
		}
	}
	platforms := make([]string, len(p.Platforms))
	for i, one := range p.Platforms {
		platforms[i] = one.String()
	}
	add(keyLanes, p.Lanes...)
	add(keyPlatforms, platforms...)
	add(keyName, p.Name)
	add(keyNodes, p.Nodes...)
	if p.Artifact {
		add(keyType, typeArtifact)
	}
	return strings.Join(words, " ")
}

// Options say where pins stand. All lists merge in order: Paths first, then Images.
type Options struct {
	// FS opens what Paths name. Every name is a slash-separated path as path.Clean leaves it, so it may be absolute or
	// begin with ".." if an entry does: an FS for the files of a machine passes them on, os.DirFS refuses them. Globs
	// need fs.Stat and fs.ReadDir to work.
	FS fs.FS
	// Paths are files and globs ("**" crosses folders), each with a selector behind "#" where wanted. An entry may hold
	// several, one a line, or a JSON list of them.
	Paths []string
	// Images is an inline list: lines of the text form, or a JSON or YAML list as it may stand under "images:".
	Images string
	// Getenv looks up the variables of Compose files; nil means that none is set. A ".env" beside the file comes second.
	Getenv func(name string) (value string, ok bool)
}

// List is a pin list without an error in it.
type List struct {
	// Pins are the images, each once, in the order in which they were first named.
	Pins []Pin
	// Notes say what was merged and what was passed over.
	Notes []Finding
	// Warnings say which pins have a tag that moves: latest, or none.
	Warnings []Finding
}

// Load reads and merges all lists. The error is Errors, with everything that is wrong with any of them; a list without
// a pin is wrong.
func Load(opts Options) (List, error) {
	l := newLoader(opts)
	for _, entry := range opts.Paths {
		for _, one := range entries(entry) {
			l.entry(one)
		}
	}
	l.inline(opts.Images)
	list := l.merge()
	if len(list.Pins) == 0 && len(l.errors) == 0 {
		l.errorf(Position{File: Inline}, KindEmpty, "no image is pinned: name a pin list or images")
	}
	if len(l.errors) > 0 {
		return List{}, Errors(inOrder(l.errors, l.files))
	}
	list.Notes = inOrder(l.notes, l.files)
	return list, nil
}

// Lane selects the pins of a lane, in order. An empty lane selects every pin.
func (l List) Lane(lane string) []Pin {
	var selected []Pin
	for _, p := range l.Pins {
		if p.in(lane) {
			selected = append(selected, p)
		}
	}
	return selected
}

func (p Pin) in(lane string) bool {
	return lane == "" || len(p.Lanes) == 0 || slices.ContainsFunc(p.Lanes, func(glob string) bool { return wildcard.Match(glob, lane) })
}
