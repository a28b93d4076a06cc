package audit

import (
	"fmt"
	"strings"

	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/reference"
)

// Bounds on what is kept of the files: far above any in use, they keep a wrong stream from taking the machine.
const (
	maxPlaces    = 1_000_000
	maxErrors    = 1_000
	maxReference = 512 // bytes; name, tag and digest are held to 255, 128 and 71 by the grammar
)

// image is an image that will be pulled, and where.
type image struct {
	ref    reference.Reference
	places []place
}

// wrong is what stands where an image belongs and is none, and where.
type wrong struct {
	written, why, hint string
	places             []place
}

// mentions gathers what the audited files name: each image once, in the order in which they are first named.
type mentions struct {
	images []*image
	wrong  []*wrong
	places int
	notes  []pin.Finding
	errors pin.Errors
	files  map[string]int // the order in which files were first met

	byReference map[reference.Reference]*image
	byText      map[string]*wrong
}

func newMentions() *mentions {
	return &mentions{files: map[string]int{}, byReference: map[reference.Reference]*image{}, byText: map[string]*wrong{}}
}

// add keeps what stands in a place where an image belongs. ifLatest is why the tag latest, or none, makes every start ask
// the registry there, or "".
func (m *mentions) add(p place, written, ifLatest string) {
	ref, why, hint := parse(written)
	if why != "" {
		m.addWrong(p, written, why, hint)
		return
	}
	if !m.count(p) {
		return
	}
	img, ok := m.byReference[ref]
	if !ok {
		img = &image{ref: ref}
		m.byReference[ref] = img
		m.images = append(m.images, img)
	}
	if p.always == "" && ref.Tag() == reference.DefaultTag {
		p.always = ifLatest
	}
	img.places = append(img.places, p)
}

// addWrong keeps a place where something stands that is no image.
func (m *mentions) addWrong(p place, written, why, hint string) {
	if !m.count(p) {
		return
	}
	w, ok := m.byText[why]
	if !ok {
		w = &wrong{written: cut(written), why: why, hint: hint}
		m.byText[why] = w
		m.wrong = append(m.wrong, w)
	}
	w.places = append(w.places, p)
}

// count counts one more place, and says whether it may be kept.
func (m *mentions) count(p place) bool {
	m.places++
	if m.places == maxPlaces {
		m.errorf(p.Position, pin.KindLimit, "more than %d places name an image", maxPlaces)
	}
	return m.places < maxPlaces
}

// parse reads what stands where an image belongs. If it is none, why says so, and hint what the usual cause is.
func parse(s string) (ref reference.Reference, why, hint string) {
	switch {
	case s == "":
		return ref, "empty value where an image belongs", "a value is not set"
	case strings.Contains(s, "{{"), strings.Contains(s, "${"), strings.Contains(s, "<no value>"):
		return ref, fmt.Sprintf("%.150q is not resolved", s), "render the file first"
	case len(s) > maxReference:
		return ref, fmt.Sprintf("%.150q… is too long for an image", s), ""
	}
	ref, err := reference.Parse(s)
	if err == nil {
		return ref, "", ""
	}
	return ref, err.Error(), cause(s)
}

// cause is what usually makes a chart render s, or "".
func cause(s string) string {
	switch {
	case strings.Contains(s, "://"):
		return "" // the error says it
	case strings.TrimSpace(s) != s:
		return "white space around it: a template does not trim what it puts there"
	case strings.HasPrefix(s, "/"):
		return "the registry before the slash is empty: a value is not set"
	case strings.HasSuffix(s, ":"), strings.Contains(s, ":@"):
		return "the tag is empty: a value is not set"
	case strings.HasSuffix(s, "@"):
		return "the digest is empty: a value is not set"
	case strings.Contains(s, "//"):
		return "a part of the path is empty: a value is not set"
	case strings.HasPrefix(s, ":"), strings.HasPrefix(s, "@"):
		return "the repository is empty: a value is not set"
	}
	return ""
}

// cut bounds what somebody wrote, in characters.
func cut(s string) string { return fmt.Sprintf("%.150s", s) }

func (m *mentions) errorf(p pin.Position, kind, format string, args ...any) {
	switch len(m.errors) {
	case maxErrors:
		m.errors = append(m.errors, pin.Finding{Position: p, Kind: pin.KindLimit, Message: fmt.Sprintf("more than %d errors: the rest is not shown", maxErrors)})
	case maxErrors + 1:
	default:
		m.errors = append(m.errors, pin.Finding{Position: p, Kind: kind, Message: fmt.Sprintf(format, args...)})
	}
}

func (m *mentions) notef(p pin.Position, kind, format string, args ...any) {
	if len(m.notes) < maxErrors {
		m.notes = append(m.notes, pin.Finding{Position: p, Kind: kind, Message: fmt.Sprintf(format, args...)})
	}
}

// inputError is an error in an input that is no file.
func inputError(input, kind, format string, args ...any) pin.Finding {
	return pin.Finding{Position: pin.Position{File: input}, Kind: kind, Message: fmt.Sprintf(format, args...)}
}
