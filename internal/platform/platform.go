// Package platform owns the platform of an image: operating system, architecture and variant in the normalised
// spelling of the OCI image index. It knows nothing of images or registries.
package platform

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// Platform is an operating system, an architecture and, where it matters, a variant. Values made by Parse and
// Normalize are comparable.
type Platform struct {
	OS, Architecture, Variant string
}

// unalias folds the names that uname and older tools use, as containerd's platforms package does.
func unalias(p Platform) Platform {
	switch p.Architecture {
	case "i386":
		p.Architecture = "386"
	case "x86_64", "x86-64":
		p.Architecture = "amd64"
	case "aarch64":
		p.Architecture = "arm64"
	case "armhf":
		p.Architecture, p.Variant = "arm", cmp.Or(p.Variant, "v7")
	case "armel":
		p.Architecture, p.Variant = "arm", cmp.Or(p.Variant, "v6")
	}
	return p
}

// Host is the platform of images that this machine's containers run: always linux, with the host's architecture.
func Host() Platform { return Normalize(Platform{OS: "linux", Architecture: runtime.GOARCH}) }

// Parse reads "os/arch" or "os/arch/variant". Nothing is assumed: a missing architecture is an error.
func Parse(s string) (Platform, error) {
	parts := strings.Split(s, "/")
	if len(parts) < 2 || len(parts) > 3 {
		return Platform{}, fmt.Errorf("invalid platform %q: write os/arch or os/arch/variant, as in linux/arm64", s)
	}
	for _, part := range parts {
		if part == "" || strings.Trim(strings.ToLower(part), "abcdefghijklmnopqrstuvwxyz0123456789_.-") != "" {
			return Platform{}, fmt.Errorf("invalid platform %q: write os/arch or os/arch/variant, as in linux/arm64", s)
		}
	}
	p := Platform{OS: parts[0], Architecture: parts[1]}
	if len(parts) == 3 {
		p.Variant = parts[2]
	}
	p = Normalize(p)
	if !slices.Contains(architectures(), p.Architecture) {
		return Platform{}, fmt.Errorf("invalid platform %q: unknown architecture %q, write it as in linux/amd64 or linux/arm64", s, p.Architecture)
	}
	return p, nil
}

// architectures are those that an image may be for: the OCI image index takes the values of Go's GOARCH, and "unknown" is
// what builders write for an attestation.
func architectures() []string {
	return []string{
		"386", "amd64", "arm", "arm64", "arm64be", "armbe", "loong64", "mips", "mips64", "mips64le", "mips64p32", "mips64p32le",
		"mipsle", "ppc", "ppc64", "ppc64le", "riscv", "riscv64", "s390", "s390x", "sparc", "sparc64", "wasm", "amd64p32", "unknown",
	}
}

// Normalize folds the spellings of one platform into one: lower case, amd64 for x86_64, no variant where it is the
// default of its architecture (arm64/v8, amd64/v1), arm/v7 for a bare arm.
func Normalize(p Platform) Platform {
	p = unalias(Platform{strings.ToLower(p.OS), strings.ToLower(p.Architecture), strings.ToLower(p.Variant)})
	switch {
	case p.Architecture == "arm64" && (p.Variant == "v8" || p.Variant == "8"),
		p.Architecture == "amd64" && p.Variant == "v1":
		p.Variant = ""
	case p.Architecture == "arm" && p.Variant == "":
		p.Variant = "v7"
	case p.Architecture == "arm" && !strings.HasPrefix(p.Variant, "v"):
		p.Variant = "v" + p.Variant
	}
	return p
}

// String is "os/arch" or "os/arch/variant".
func (p Platform) String() string { return p.join("/") }

// Dashed is String with dashes, fit for file names and keys.
func (p Platform) Dashed() string { return p.join("-") }

func (p Platform) join(sep string) string {
	s := p.OS + sep + p.Architecture
	if p.Variant != "" {
		s += sep + p.Variant
	}
	return s
}

// IsZero says whether p is no platform at all.
func (p Platform) IsZero() bool { return p == Platform{} }

// MarshalText writes String.
func (p Platform) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is Parse.
func (p *Platform) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*p = parsed
	return nil
}
