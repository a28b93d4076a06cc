package audit

import (
	"fmt"

	"github.com/pullonce/pullonce/internal/pin"
)

// Kind is what a finding is about: a short fixed word for programs.
type Kind string

// The kinds of findings.
const (
	// Unpinned is an image whose repository is not in the pin list: every lane pulls it.
	Unpinned Kind = "unpinned"
	// Drift is an image whose repository is pinned under another tag or digest: the loaded image is one that nothing uses.
	Drift Kind = "drift"
	// NotAnImage is a value that no image can be pulled by: empty, unrendered, malformed.
	NotAnImage Kind = "not-an-image"
	// RegistryNotAllowed is an image from a registry that is not among those allowed.
	RegistryNotAllowed Kind = "registry-not-allowed"
	// AlwaysPull is a use that asks the registry at every start, whatever was loaded.
	AlwaysPull Kind = "always-pull"
	// MutableTag is an image without a digest whose tag is latest, or that has no tag.
	MutableTag Kind = "mutable-tag"
	// Unused is a pin that nothing audited names.
	Unused Kind = "unused"
)

// Kinds are all kinds, the gravest first.
func Kinds() []Kind {
	return []Kind{NotAnImage, Drift, Unpinned, RegistryNotAllowed, AlwaysPull, MutableTag, Unused}
}

// DefaultFailOn are the kinds that fail an audit if nobody says otherwise: those that mean a pull that prime did not
// make, or none at all. The others are told: a pin list may serve more than the files at hand, and a policy of always
// pulling or a moving tag may be meant.
func DefaultFailOn() []Kind { return []Kind{NotAnImage, Drift, Unpinned, RegistryNotAllowed} }

// Finding is one thing to say about an image, and where. An image that stands in many places is one finding.
type Finding struct {
	// Position is the first of the places.
	pin.Position
	Kind Kind `json:"kind"`
	// Image is the image in canonical form, or what stands in its place as it is written.
	Image string `json:"image"`
	// Message is one line: what is wrong and how it should be.
	Message string `json:"message"`
	// Hint is one line that says what to do, or "".
	Hint string `json:"hint,omitempty"`
	// Source is what the document was rendered from, as a comment of helm's says, or "".
	Source string `json:"source,omitempty"`
	// Pin is where the pin stands that the finding names, or nil.
	Pin *pin.Position `json:"pin,omitempty"`
	// Also are the other places.
	Also []pin.Position `json:"also,omitempty"`
}

// String is "file:line:column: message".
func (f Finding) String() string { return f.Position.String() + ": " + f.Message }

// place is where an image stands, and how it is used there.
type place struct {
	pin.Position
	source string
	// always says why every start asks the registry, or "".
	always string
}

// at makes a finding of a kind about what stands in places.
func at(places []place, kind Kind, image, format string, args ...any) Finding {
	f := Finding{
		Position: places[0].Position, Kind: kind, Image: image, Message: fmt.Sprintf(format, args...), Source: places[0].source,
	}
	for _, p := range places[1:] {
		f.Also = append(f.Also, p.Position)
	}
	switch len(f.Also) {
	case 0:
	case 1:
		f.Message += fmt.Sprintf(" (also at %s)", f.Also[0])
	default:
		f.Message += fmt.Sprintf(" (also in %d more places)", len(f.Also))
	}
	return f
}
