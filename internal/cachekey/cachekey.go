// Package cachekey owns the cache identity of a pin: the key is made of the canonical reference, the platform, the
// format of the entry and the salt, and nothing else goes in. It does not know where entries live.
package cachekey

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
)

// Format is the format version of what stands under a key. Another format is another key, so that a reader of one never
// meets the other: an upgrade is a miss. The zero value is V1.
type Format int

// The formats.
const (
	V1 Format = iota // layers as the registry has them
	V2               // layers recompressed with zstd
)

// String is the format as it stands in a key.
func (f Format) String() string { return fmt.Sprintf("v%d", int(f)+1) }

// Bounds on the parts of a key, in bytes. With them a key with a generation behind it is at most 128 bytes long: the
// cache service takes 512, a file name 255, and the tag of an image in a registry 128 (distribution-spec, "Pulling
// manifests"). What is cut off still counts in the hash.
const (
	maxName = 56
	maxPart = 12
)

// hashLength is the length of the hash at the end of a key, in hex digits. Keys that differ in name or platform differ
// before it, so 64 bits only tell the digests, registries and salts of one name apart.
const hashLength = 16

// Key is the key of ref on p in format V1.
func Key(ref reference.Reference, p platform.Platform, salt string) string {
	return V1.Key(ref, p, salt)
}

// Key is the cache key of ref on p: "pullonce-v1-<name>-<os>-<arch>[-<variant>]-<16 hex>". It changes with the format,
// the canonical reference with its tag and digest, the platform, and the salt.
func (f Format) Key(ref reference.Reference, p platform.Platform, salt string) string {
	p = platform.Normalize(p)
	parts := []string{f.stem(ref), clean(p.OS, maxPart), clean(p.Architecture, maxPart)}
	if p.Variant != "" {
		parts = append(parts, clean(p.Variant, maxPart))
	}
	return strings.Join(append(parts, hash(f.String(), ref.String(), p.String(), salt)), "-")
}

// stem is what the keys of ref begin with, whatever the platform.
func (f Format) stem(ref reference.Reference) string {
	return strings.Join([]string{"pullonce", f.String(), clean(ref.Base(), maxName)}, "-")
}

// shape is that of a key of any format, the generation that may be behind it included.
var shape = regexp.MustCompile(`^pullonce-v[0-9]+-[A-Za-z0-9._-]+-[0-9a-f]{16}(\.[0-9]+)?$`)

// IsKey says whether s may be a key, of this version or another's.
func IsKey(s string) bool { return shape.MatchString(s) }

// PlatformOf is the platform for which key is that of ref. It is false where key is another reference's or format's, or
// was made with another salt.
func (f Format) PlatformOf(key string, ref reference.Reference, salt string) (platform.Platform, bool) {
	rest, ok := strings.CutPrefix(key, f.stem(ref)+"-")
	end := len(rest) - hashLength - 1
	if !ok || end < 0 {
		return platform.Platform{}, false
	}
	system, rest, _ := strings.Cut(rest[:end], "-")
	architecture, variant, _ := strings.Cut(rest, "-")
	p := platform.Platform{OS: system, Architecture: architecture, Variant: variant}
	return p, f.Key(ref, p, salt) == key
}

// Set is the key of several entries kept as one: the same for the same keys in any order, and "" for none. It is a key
// for the official cache steps only; no store has an entry under it.
func Set(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return "pullonce-set-" + hash(slices.Compact(slices.Sorted(slices.Values(keys)))...)
}

// hash is over the fields with their lengths, so that no two lists of fields read the same.
func hash(fields ...string) string {
	sum := sha256.New()
	for _, field := range fields {
		fmt.Fprintf(sum, "%d:%s,", len(field), field)
	}
	return hex.EncodeToString(sum.Sum(nil))[:hashLength]
}

// clean keeps what is safe in a key, a file name and a tag, and most bytes of it.
func clean(s string, most int) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
			return r
		default:
			return '_'
		}
	}, s[:min(len(s), most)])
}
