package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/reference"
)

// comparison holds images against pins and registries, and gathers what there is to say.
type comparison struct {
	byRepository map[string][]*pinned
	byPath       map[string]*pinned // of any registry, the first
	all          []*pinned
	allowed      registries
	findings     []Finding
}

// pinned is a pin, and whether something named it.
type pinned struct {
	pin.Pin
	// used says that it is what is pulled, and named that a finding about a use names it.
	used, named bool
}

func newComparison(pins []pin.Pin, allowed registries) *comparison {
	c := &comparison{byRepository: map[string][]*pinned{}, byPath: map[string]*pinned{}, allowed: allowed}
	for _, p := range pins {
		one := &pinned{Pin: p}
		c.all = append(c.all, one)
		repository := p.Reference.Repository()
		c.byRepository[repository] = append(c.byRepository[repository], one)
		if c.byPath[p.Reference.Path()] == nil {
			c.byPath[p.Reference.Path()] = one
		}
	}
	return c
}

// image says all there is to say of an image that will be pulled.
func (c *comparison) image(img *image) {
	c.pin(img)
	if !c.allowed.allow(img.ref) {
		c.add(c.notAllowed(img.ref, img.places))
	}
	if isMutable(img.ref) {
		f := at(img.places, MutableTag, img.ref.String(), "%s moves with every release", img.ref.Familiar())
		f.Hint = "name a version or a digest; no tag means latest"
		c.add(f)
	}
	var always []place
	for _, p := range img.places {
		if p.always != "" {
			always = append(always, p)
		}
	}
	if len(always) > 0 {
		f := at(always, AlwaysPull, img.ref.String(), "%s: %s, so that the registry is asked, loaded or not", img.ref.Familiar(), always[0].always)
		f.Hint = "say that an image that is there is good enough (IfNotPresent, in Compose missing)"
		c.add(f)
	}
}

// pin finds the pin of an image, or says that there is none.
func (c *comparison) pin(img *image) {
	candidates, satisfied := c.byRepository[img.ref.Repository()], false
	for _, p := range candidates {
		if satisfies(p.Reference, img.ref) {
			p.used, satisfied = true, true
		}
	}
	switch {
	case satisfied:
	case len(candidates) == 0:
		c.add(c.unpinned(img))
	default:
		c.add(drift(img, nearest(candidates, img.ref)))
	}
}

// satisfies says whether loading pin makes what is rendered available without a registry. A digest decides where one is
// rendered: the tag beside it counts for nothing. Where none is, the tag decides, and the pin may say more.
func satisfies(pin, rendered reference.Reference) bool {
	if rendered.Digest() != "" {
		return pin.Digest() == rendered.Digest()
	}
	return pin.Tag() == rendered.Tag()
}

// unpinned says that an image is not in the list. The same path in another registry is worth a word: a registry that was
// templated in is how that comes about.
func (c *comparison) unpinned(img *image) Finding {
	f := at(img.places, Unpinned, img.ref.String(), "%s is pulled, and no pin names its repository", img.ref.Familiar())
	f.Hint = "add it to the pin list"
	if other := c.byPath[img.ref.Path()]; other != nil {
		other.named = true
		where := other.Position
		f.Pin = &where
		f.Hint = fmt.Sprintf("%s is pinned at %s, from another registry", other.Reference.Familiar(), line(where))
	}
	return f
}

// drift says that a repository is pinned otherwise than it is rendered.
func drift(img *image, p *pinned) Finding {
	p.named = true
	where := p.Position
	f := at(img.places, Drift, img.ref.String(), "%s %s is rendered, %s is pinned at %s",
		name(img.ref), version(img.ref), version(p.Reference), line(where))
	f.Pin = &where
	switch f.Hint = "write " + img.ref.Familiar() + " there"; {
	case isMutable(img.ref):
		f.Hint = "name one version in both places"
	case p.Reference.Digest() != "" && img.ref.Digest() == "":
		f.Hint += ", with its digest"
	}
	return f
}

// notAnImage says that nothing can be pulled by what stands somewhere.
func (c *comparison) notAnImage(w *wrong) {
	f := at(w.places, NotAnImage, w.written, "%s", w.why)
	f.Hint = w.hint
	c.add(f)
}

func (c *comparison) notAllowed(ref reference.Reference, places []place) Finding {
	f := at(places, RegistryNotAllowed, ref.String(), "%s comes from %s, which is not allowed", ref.Familiar(), ref.Domain())
	f.Hint = "allowed: " + c.allowed.String()
	return f
}

// pins says what there is to say of the pins themselves. What was said of a use of the same image is not said again.
func (c *comparison) pins(warnings []pin.Finding) {
	moving := map[pin.Position]pin.Finding{}
	for _, w := range warnings {
		if w.Kind == pin.KindMutableTag {
			moving[w.Position] = w
		}
	}
	for _, p := range c.all {
		if p.used {
			continue
		}
		places, image := []place{{Position: p.Position}}, p.Reference.String()
		if !p.named {
			f := at(places, Unused, image, "%s is pinned, and nothing that was audited names it", p.Reference.Familiar())
			f.Hint = "drop it, if nothing else needs it"
			c.add(f)
		}
		if !c.allowed.allow(p.Reference) {
			c.add(c.notAllowed(p.Reference, places))
		}
		if w, ok := moving[p.Position]; ok {
			c.add(at(places, MutableTag, image, "%s", w.Message))
		}
	}
}

func (c *comparison) add(f Finding) { c.findings = append(c.findings, f) }

// inOrder sorts what was found by file, in the order of files, then by place, the gravest first.
func (c *comparison) inOrder(files map[string]int) []Finding {
	grave := map[Kind]int{}
	for i, kind := range Kinds() {
		grave[kind] = i
	}
	file := func(f Finding) int {
		if i, ok := files[f.File]; ok {
			return i
		}
		return len(files) // a pin list
	}
	slices.SortStableFunc(c.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(file(a), file(b)), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(grave[a.Kind], grave[b.Kind]))
	})
	return c.findings
}

func isMutable(ref reference.Reference) bool {
	return ref.Tag() == reference.DefaultTag && ref.Digest() == ""
}

// line is "file:line", as far as it is known.
func line(p pin.Position) string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// name is the repository as people write it.
func name(ref reference.Reference) string {
	short := strings.TrimSuffix(ref.Familiar(), "@"+ref.Digest().String())
	return strings.TrimSuffix(short, ":"+ref.Tag())
}

// version is what tells ref from others of its repository.
func version(ref reference.Reference) string {
	switch {
	case ref.Digest() == "":
		return ref.Tag()
	case ref.Tag() == "":
		return ref.Digest().String()
	default:
		return ref.Tag() + "@" + ref.Digest().String()
	}
}
