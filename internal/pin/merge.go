package pin

import (
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pullonce/pullonce/internal/reference"
)

// merge makes one pin of each image, however often and in whatever spelling it is named.
func (l *loader) merge() List {
	var list List
	byReference := map[reference.Reference]int{}
	again := map[int][]Position{}
	for _, p := range l.pins {
		i, ok := byReference[p.Reference]
		if !ok {
			byReference[p.Reference] = len(list.Pins)
			list.Pins = append(list.Pins, p)
			continue
		}
		// A YAML merge gives several services the very same place.
		if p.Position != list.Pins[i].Position && !slices.Contains(again[i], p.Position) {
			again[i] = append(again[i], p.Position)
		}
		list.Pins[i] = union(list.Pins[i], p)
	}
	for i, p := range list.Pins {
		if more := again[i]; len(more) > 0 {
			l.notef(more[0], KindDuplicate, "%s is named %d times, first in %s: one pin, with the lanes of all", p.Reference.Familiar(), len(more)+1, p.Position)
		}
		if p.Reference.Tag() == reference.DefaultTag && p.Reference.Digest() == "" {
			list.Warnings = append(list.Warnings, newFinding(p.Position, KindMutableTag,
				"%s moves with every release (no tag means latest): pin a version or a digest", p.Reference.Familiar()))
		}
	}
	l.conflicts(list.Pins)
	l.doubles(list.Pins)
	return list
}

// union is a with what b adds. No lanes, and no nodes, mean all of them, so they win; platforms that are named win over
// those of the run, which any list can have by naming none. An artifact is one in every list, also where one does not say so.
func union(a, b Pin) Pin {
	a.Lanes = widen(a.Lanes, b.Lanes)
	a.Nodes = widen(a.Nodes, b.Nodes)
	a.Platforms = appendNew(a.Platforms, b.Platforms)
	a.Artifact = a.Artifact || b.Artifact
	if a.Name == "" {
		a.Name = b.Name
	}
	return a
}

func widen(a, b []string) []string {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	return appendNew(a, b)
}

// appendNew appends to a what it lacks of b.
func appendNew[T comparable](a, b []T) []T {
	a = slices.Clip(a)
	for _, item := range b {
		if !slices.Contains(a, item) {
			a = append(a, item)
		}
	}
	return a
}

// doubles notes each tag that is pinned both with a digest and without one: these are two pins, of which one may move.
func (l *loader) doubles(pins []Pin) {
	digested := map[string]Position{}
	for _, p := range pins {
		if name := p.Reference.Tagged(); name != "" && p.Reference.Digest() != "" {
			digested[name] = p.Position
		}
	}
	for _, p := range pins {
		with, ok := digested[p.Reference.Tagged()]
		if ok && p.Reference.Digest() == "" {
			l.notef(p.Position, KindDuplicate, "%s is pinned twice: without a digest here, with one in %s", p.Reference.Familiar(), with)
		}
	}
}

// conflicts tells of each repository and tag that has two digests.
func (l *loader) conflicts(pins []Pin) {
	type pinned struct {
		digest digest.Digest
		at     Position
	}
	first := map[string]pinned{}
	for _, p := range pins {
		name, sum := p.Reference.Tagged(), p.Reference.Digest()
		if name == "" || sum == "" {
			continue
		}
		if other, ok := first[name]; ok {
			l.errorf(p.Position, KindConflict, "%s has two digests: %s here, %s in %s", name, sum, other.digest, other.at)
			continue
		}
		first[name] = pinned{sum, p.Position}
	}
}
