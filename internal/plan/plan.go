// Package plan owns what a run is about: which pins on which platforms, under which keys and names, in which order. It
// is pure data and knows no network and no disk.
package plan

import (
	"cmp"
	"strings"

	"github.com/pullonce/pullonce/internal/cachekey"
	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/platform"
)

// Folder is where the official cache steps find entries, in the workspace. The literal path is part of the version
// under which the cache service keeps an entry, so it is always this one.
const Folder = ".pullonce"

// Item is one image on one platform: what one entry holds.
type Item struct {
	Pin      pin.Pin           `json:"pin"`
	Platform platform.Platform `json:"platform"`
	// Key is the key of the entry.
	Key string `json:"key"`
	// Name is for people, unique in the plan: the pin's own, or the familiar reference without its digest, with as much
	// more as tells it from the others.
	Name string `json:"name"`
}

// Options are what a plan needs besides pins. The zero value works.
type Options struct {
	// Platforms are those of the pins that name none; none means linux on the host's architecture.
	Platforms []platform.Platform
	// Salt goes into every key.
	Salt string
	// Format is that of the entries; the default is V1.
	Format cachekey.Format
}

// Plan is a list of items, in the order of the pins and of their platforms, each key once.
type Plan struct {
	Items []Item `json:"items"`
}

// Make plans pins.
func Make(pins []pin.Pin, opts Options) Plan {
	var p Plan
	seen := map[string]bool{}
	for _, one := range pins {
		for _, on := range opts.platforms(one) {
			item := Item{Pin: one, Platform: platform.Normalize(on)}
			item.Key = opts.Format.Key(one.Reference, item.Platform, opts.Salt)
			if !seen[item.Key] {
				seen[item.Key] = true
				p.Items = append(p.Items, item)
			}
		}
	}
	name(p.Items)
	return p
}

// platforms are those that a pin is wanted for: its own win over those of the run.
func (o Options) platforms(p pin.Pin) []platform.Platform {
	switch {
	case len(p.Platforms) > 0:
		return p.Platforms
	case len(o.Platforms) > 0:
		return o.Platforms
	default:
		return []platform.Platform{platform.Host()}
	}
}

// Images are the canonical references, each once.
func (p Plan) Images() []string {
	images := []string{}
	seen := map[string]bool{}
	for _, item := range p.Items {
		if ref := item.Pin.Reference.String(); !seen[ref] {
			seen[ref] = true
			images = append(images, ref)
		}
	}
	return images
}

// Keys are the keys of the items.
func (p Plan) Keys() []string {
	keys := make([]string, len(p.Items))
	for i, item := range p.Items {
		keys[i] = item.Key
	}
	return keys
}

// Key is the key for the official cache steps: that of the one item, the set key of several, "" for none.
func (p Plan) Key() string {
	if len(p.Items) == 1 {
		return p.Items[0].Key
	}
	return cachekey.Set(p.Keys())
}

// Path is the path for the official cache steps: the folder of the one entry, that of all of several, "" for none.
func (p Plan) Path() string {
	switch len(p.Items) {
	case 0:
		return ""
	case 1:
		return Folder + "/" + p.Items[0].Key
	default:
		return Folder
	}
}

// Count is the number of items.
func (p Plan) Count() int { return len(p.Items) }

// name gives every item a name of its own. Names that meet say more, until they no longer do.
func name(items []Item) {
	level := make([]int, len(items))
	for {
		at := map[string][]int{}
		for i := range items {
			items[i].Name = items[i].name(level[i])
			at[items[i].Name] = append(at[items[i].Name], i)
		}
		unique := true
		for _, same := range at {
			if len(same) > 1 {
				unique = false
				for _, i := range same {
					level[i]++
				}
			}
		}
		if unique {
			return
		}
	}
}

// name is the name of an item at a level of detail. From level 2 on it tells pin and platform, which no other item has.
func (it Item) name(level int) string {
	familiar := it.Pin.Reference.Familiar()
	short, _, _ := strings.Cut(familiar, "@")
	switch own := cmp.Or(it.Pin.Name, short); level {
	case 0:
		return own
	case 1:
		return own + " " + it.Platform.String()
	default:
		return strings.TrimSpace(it.Pin.Name+" "+familiar) + " " + it.Platform.String()
	}
}
