package registry

import (
	"slices"
	"strconv"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/platform"
)

const (
	// maxEntries bounds an index, in entries. The largest of the official images have a few dozen.
	maxEntries = 1000
	// maxOffered is how many platforms a message names.
	maxOffered = 20
)

// choose finds the manifest for a platform in an index: the exact variant, else the newest older one, which the same
// machine runs too. Among equals the first counts, as it does for Docker and containerd.
func choose(entries []ocispec.Descriptor, want platform.Platform) (ocispec.Descriptor, bool) {
	best, bestLevel, found := ocispec.Descriptor{}, 0.0, false
	for _, d := range images(entries) {
		if d.Platform == nil {
			continue
		}
		level, ok := runs(want, platformOf(d))
		if ok && (!found || level > bestLevel) {
			best, bestLevel, found = d, level, true
		}
	}
	if found {
		return best, true
	}
	// An index of one image need not say for what; the config will.
	if only := images(entries); len(only) == 1 && only[0].Platform == nil {
		return only[0], true
	}
	return ocispec.Descriptor{}, false
}

// images are the entries that are image manifests; attestations, which are for the platform unknown/unknown, are not.
func images(entries []ocispec.Descriptor) []ocispec.Descriptor {
	return slices.DeleteFunc(slices.Clone(entries), func(d ocispec.Descriptor) bool {
		unknown := d.Platform != nil && d.Platform.OS == "unknown"
		return unknown || d.MediaType != "" && !image.IsManifest(d.MediaType)
	})
}

func platformOf(d ocispec.Descriptor) platform.Platform {
	return platform.Normalize(platform.Platform{OS: d.Platform.OS, Architecture: d.Platform.Architecture, Variant: d.Platform.Variant})
}

// runs says whether a machine for want runs images for have, and which level of the architecture they use.
func runs(want, have platform.Platform) (level float64, ok bool) {
	if want.OS != have.OS || want.Architecture != have.Architecture {
		return 0, false
	}
	if want.Variant == have.Variant {
		return variantLevel(have), true
	}
	level = variantLevel(have)
	return level, level > 0 && level <= variantLevel(want)
}

// variantLevel orders the variants of one architecture; 0 is a variant that has no place in the order.
func variantLevel(p platform.Platform) float64 {
	if p.Variant == "" {
		return map[string]float64{"amd64": 1, "arm64": 8}[p.Architecture]
	}
	level, err := strconv.ParseFloat(strings.TrimPrefix(p.Variant, "v"), 64)
	if err != nil {
		return 0
	}
	return level
}

// offered lists the platforms of an index for a message: the first maxOffered of them, each once.
func offered(entries []ocispec.Descriptor) string {
	var names []string
	seen := map[platform.Platform]bool{}
	for _, d := range images(entries) {
		if d.Platform == nil || seen[platformOf(d)] {
			continue
		}
		if len(names) == maxOffered {
			names = append(names, "…")
			break
		}
		seen[platformOf(d)] = true
		names = append(names, clean(platformOf(d).String()))
	}
	if names == nil {
		return "no platform"
	}
	return strings.Join(names, ", ")
}
