package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/pullonce/pullonce/internal/wildcard"
)

// Document is one document of a stream.
type Document struct {
	// Root is never nil.
	Root *yaml.Node
	// Source is what a comment above the document says that it was rendered from, as helm template writes it, or "".
	Source string
	// Tell is called with what is wrong beyond syntax: ErrAliases or a DuplicateKeyError. Nil tells nobody.
	Tell func(at *yaml.Node, problem error)

	size int // of its text, in bytes
	// budget bounds how many nodes may be visited. Without aliases a document has fewer nodes than bytes, so only
	// aliases of aliases come to its end.
	budget int
}

// ErrAliases is that the aliases of a document stand for more than it could hold by itself.
var ErrAliases = errors.New("aliases of aliases: they stand for more than this file could hold")

// DuplicateKeyError is that a key stands twice in a mapping.
type DuplicateKeyError struct {
	Key string
	// Line is where it stands first.
	Line int
}

// Error implements error.
func (e DuplicateKeyError) Error() string {
	return fmt.Sprintf("key %.150q is there twice: it also stands in line %d", e.Key, e.Line)
}

// newDocument is the document that text holds.
func newDocument(root *yaml.Node, text []byte) *Document {
	return &Document{Root: root, Source: source(text), size: len(text), budget: budget(len(text))}
}

func budget(size int) int { return 10_000 + 2*size }

// sourceComment is how helm begins each document.
const sourceComment = "# Source: "

// source is what the comments at the top of text name as its source.
func source(text []byte) string {
	for line := range bytes.Lines(text) {
		if named, ok := bytes.CutPrefix(line, []byte(sourceComment)); ok {
			return string(bytes.TrimSpace(named))
		}
		if !isPrologue(line) && !isMarker(line, "---") {
			break
		}
	}
	return ""
}

// Again is the same document for another walk: what was visited before does not count.
func (d *Document) Again() *Document {
	again := *d
	again.budget = budget(d.size)
	return &again
}

func (d *Document) tell(at *yaml.Node, problem error) {
	if d.Tell != nil {
		d.Tell(at, problem)
	}
}

// Visit counts one more visit of a node, and says whether it may be made. Whoever walks through aliases asks it first.
func (d *Document) Visit(n *yaml.Node) bool {
	d.budget--
	if d.budget == 0 {
		d.tell(n, ErrAliases)
	}
	return d.budget > 0
}

// Resolve follows an alias.
func Resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// Pair is an entry of a mapping.
type Pair struct {
	Key string
	// At is the key's node, and Value the value's.
	At, Value *yaml.Node
}

// Pairs are the entries of a mapping in order, those that it merges in ("<<") behind its own. A key that is there twice
// is told, and the last one counts, as it does to all who take it. What is no mapping has none.
func (d *Document) Pairs(n *yaml.Node) []Pair {
	c := collector{doc: d, index: map[string]int{}}
	c.collect(Resolve(n), 0)
	return c.pairs
}

// maxMerge bounds how deep merges may nest.
const maxMerge = 20

// collector gathers the entries of a mapping and of those that it merges in.
type collector struct {
	doc   *Document
	pairs []Pair
	index map[string]int // of pairs, by key
}

func (c *collector) collect(n *yaml.Node, depth int) {
	if n.Kind != yaml.MappingNode || depth > maxMerge {
		return
	}
	inherited := len(c.pairs)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content) && c.doc.Visit(n); i += 2 {
		key, value := Resolve(n.Content[i]), n.Content[i+1]
		if key.ShortTag() == "!!merge" {
			merged = append(merged, value)
			continue
		}
		c.keep(Pair{key.Value, n.Content[i], value}, inherited)
	}
	for _, m := range merged {
		sources := []*yaml.Node{m}
		if list := Resolve(m); list.Kind == yaml.SequenceNode {
			sources = list.Content
		}
		for _, source := range sources {
			c.collect(Resolve(source), depth+1)
		}
	}
}

// keep keeps an entry. The inherited first pairs are those of the mapping that merges this one in, and win over it.
func (c *collector) keep(p Pair, inherited int) {
	i, ok := c.index[p.Key]
	switch {
	case !ok:
		c.index[p.Key] = len(c.pairs)
		c.pairs = append(c.pairs, p)
	case i >= inherited:
		if Resolve(p.At).Kind == yaml.ScalarNode {
			c.doc.tell(p.At, DuplicateKeyError{p.Key, c.pairs[i].At.Line})
		}
		c.pairs[i].Value = p.Value
	}
}

// Get is the value of a key of a mapping, or nil.
func (d *Document) Get(n *yaml.Node, key string) *yaml.Node {
	for _, p := range d.Pairs(n) {
		if p.Key == key {
			return p.Value
		}
	}
	return nil
}

// Find calls found for each node that the segments lead to from n. A segment is a pattern of wildcard.Match for the keys
// of a mapping, and for the indexes of a list, which count from 0.
func (d *Document) Find(n *yaml.Node, segments []string, found func(*yaml.Node)) {
	if !d.Visit(n) {
		return
	}
	if len(segments) == 0 {
		found(n)
		return
	}
	switch target := Resolve(n); target.Kind {
	case yaml.MappingNode:
		for _, p := range d.Pairs(target) {
			if wildcard.Match(segments[0], p.Key) {
				d.Find(p.Value, segments[1:], found)
			}
		}
	case yaml.SequenceNode:
		for i, item := range target.Content {
			if wildcard.Match(segments[0], strconv.Itoa(i)) {
				d.Find(item, segments[1:], found)
			}
		}
	}
}
