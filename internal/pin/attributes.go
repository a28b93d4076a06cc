package pin

import (
	"slices"
	"strings"
	"unicode"

	"github.com/pullonce/pullonce/internal/platform"
)

// The keys of a pin's attributes, in the text form and in YAML.
const (
	keyLanes     = "lanes"
	keyPlatforms = "platforms"
	keyName      = "name"
	keyNodes     = "nodes"
	keyType      = "type"
)

// The types of what a pin names.
const (
	typeImage    = "image" // where nothing is said
	typeArtifact = "artifact"
)

// written is what somebody wrote, and where.
type written struct {
	at   Position
	text string
}

// attribute sets an attribute of p. What is wrong with it is told, and then it is false.
func (l *loader) attribute(p *Pin, key string, at Position, values []written) bool {
	before := len(l.errors)
	switch key {
	case keyLanes:
		p.Lanes = l.globs(key, values)
	case keyNodes:
		p.Nodes = l.words(key, values)
	case keyPlatforms:
		p.Platforms = l.platforms(values)
	case keyName:
		p.Name = l.word(key, at, values)
	case keyType:
		p.Artifact = l.isArtifact(at, values)
	default:
		l.errorf(at, KindAttribute, "unknown key %s: use %s, %s, %s, %s or %s", quote(key), keyLanes, keyPlatforms, keyName, keyNodes, keyType)
	}
	return len(l.errors) == before
}

// words are the items of a list, commas apart, each once. An item that could not stand in the text form is refused.
func (l *loader) words(key string, values []written) []string {
	var found []string
	for _, v := range values {
		for item := range strings.SplitSeq(v.text, ",") {
			item = strings.TrimSpace(item)
			if l.isWord(key, v.at, item) && !slices.Contains(found, item) {
				found = append(found, item)
			}
		}
	}
	return found
}

// otherGlobs are characters that mean something in the globs of others, and would only stand for themselves in lanes: such
// a glob would match no lane, and an image would be left out without a word.
const otherGlobs = `?[]{}\`

// globs are words in which "*" is the one wildcard.
func (l *loader) globs(key string, values []written) []string {
	var found []string
	for _, v := range values {
		for _, item := range l.words(key, []written{v}) {
			if strings.ContainsAny(item, otherGlobs) {
				l.advise(v.at, KindAttribute, "name each lane, commas apart", "invalid glob %s in %s: * is the one wildcard", quote(item), key)
			} else if !slices.Contains(found, item) {
				found = append(found, item)
			}
		}
	}
	return found
}

func (l *loader) platforms(values []written) []platform.Platform {
	var found []platform.Platform
	for _, v := range values {
		for _, item := range l.words(keyPlatforms, []written{v}) {
			p, err := platform.Parse(item)
			if err != nil {
				l.errorf(v.at, KindAttribute, "%v", err)
			} else if !slices.Contains(found, p) {
				found = append(found, p)
			}
		}
	}
	return found
}

// word is the value of a key that has one; "" where what is wrong with it was told.
func (l *loader) word(key string, at Position, values []written) string {
	if len(values) != 1 {
		l.errorf(at, KindAttribute, "%s is one word, not a list", key)
		return ""
	}
	if !l.isWord(key, values[0].at, values[0].text) {
		return ""
	}
	return values[0].text
}

func (l *loader) isArtifact(at Position, values []written) bool {
	word := l.word(keyType, at, values)
	if word != "" && word != typeImage && word != typeArtifact {
		l.errorf(values[0].at, KindAttribute, "unknown %s %s: use %s or %s", keyType, quote(word), typeImage, typeArtifact)
	}
	return word == typeArtifact
}

func (l *loader) isWord(key string, at Position, s string) bool {
	switch {
	case s == "":
		l.errorf(at, KindEmpty, "empty value in %s", key)
	case isTemplate(s):
		l.errorf(at, KindRender, "%s in %s is not resolved: render the file first", quote(s), key)
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		l.errorf(at, KindAttribute, "white space or an unprintable character in %s: %s", key, quote(s))
	default:
		return true
	}
	return false
}
