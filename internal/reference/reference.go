// Package reference owns the canonical form of an image reference: the one spelling under which a pin is keyed, named
// and reported. It knows no registry and no pin list.
package reference

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
)

// DefaultTag is the tag that a reference with neither tag nor digest stands for.
const DefaultTag = "latest"

// Reference is a parsed image reference in canonical form: the registry is always named, docker.io/library is spelled
// out, and tag and digest are both kept. The zero value is no reference. Values are comparable.
type Reference struct {
	domain, path, tag string
	digest            digest.Digest
}

// Parse reads what a person wrote. The grammar is that of distribution/reference, with the spellings refused that
// other tools let pass: white space, a scheme, a digest other than SHA-256, and upper case in the repository or in the
// registry, because a host name in two spellings would be two images.
func Parse(s string) (Reference, error) {
	switch {
	case s == "":
		return Reference{}, errors.New("empty reference")
	case strings.IndexFunc(s, unicode.IsSpace) >= 0:
		return Reference{}, fmt.Errorf("white space inside reference %q", s)
	case strings.Contains(s, "://"):
		scheme, rest, _ := strings.Cut(s, "://")
		return Reference{}, fmt.Errorf("reference %q starts with a scheme: drop %q and write %q", s, scheme+"://", rest)
	}
	name, _, _ := strings.Cut(s, "@")
	if repository := cutTag(name); strings.ToLower(repository) != repository {
		return Reference{}, fmt.Errorf("reference %q has upper case before its tag: write it in lower case", s)
	}
	named, err := reference.ParseNormalizedNamed(s)
	if err != nil {
		return Reference{}, fmt.Errorf("invalid reference %q: %w", s, err)
	}
	ref := Reference{domain: reference.Domain(named), path: reference.Path(named)}
	if tagged, ok := named.(reference.Tagged); ok {
		ref.tag = tagged.Tag()
	}
	if digested, ok := named.(reference.Digested); ok {
		ref.digest = digested.Digest()
		if ref.digest.Algorithm() != digest.SHA256 {
			return Reference{}, fmt.Errorf("reference %q: only sha256 digests are supported", s)
		}
	}
	if ref.tag == "" && ref.digest == "" {
		ref.tag = DefaultTag
	}
	return ref, nil
}

// cutTag is name without its tag. A colon before the last slash is that of a port or of an IPv6 address.
func cutTag(name string) string {
	slash := strings.LastIndexByte(name, '/')
	if colon := strings.IndexByte(name[slash+1:], ':'); colon >= 0 {
		return name[:slash+1+colon]
	}
	return name
}

// MustParse is Parse for constants; it panics on an invalid reference.
func MustParse(s string) Reference {
	ref, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return ref
}

// Domain is the registry, as in "docker.io" or "[::1]:5000".
func (r Reference) Domain() string { return r.domain }

// Path is the repository within its registry, as in "library/redis".
func (r Reference) Path() string { return r.path }

// Repository is domain and path, as in "docker.io/library/redis".
func (r Reference) Repository() string {
	if r.domain == "" {
		return r.path
	}
	return r.domain + "/" + r.path
}

// Base is the last segment of the path, as in "redis".
func (r Reference) Base() string { return r.path[strings.LastIndexByte(r.path, '/')+1:] }

// Tag is the tag, or "" for a reference by digest alone.
func (r Reference) Tag() string { return r.tag }

// Digest is the digest, or "" for a reference by tag alone.
func (r Reference) Digest() digest.Digest { return r.digest }

// IsZero says whether r is no reference at all.
func (r Reference) IsZero() bool { return r == Reference{} }

// Tagged is the canonical name without the digest, as in "docker.io/library/redis:7", or "" where there is no tag.
func (r Reference) Tagged() string {
	if r.tag == "" {
		return ""
	}
	return r.Repository() + ":" + r.tag
}

// WithDigest is "repository@digest" for any digest of this repository.
func (r Reference) WithDigest(d digest.Digest) string { return r.Repository() + "@" + d.String() }

// String is the canonical form, with tag and digest as far as they are there.
func (r Reference) String() string {
	s := r.Repository()
	if r.tag != "" {
		s += ":" + r.tag
	}
	if r.digest != "" {
		s += "@" + r.digest.String()
	}
	return s
}

// Familiar is the short form that people and the docker command show, as in "redis:7". It always parses back to r: where
// the short form would mean another repository ("docker.io/localhost/x"), it stays long.
func (r Reference) Familiar() string {
	full := r.String()
	for _, prefix := range []string{"docker.io/library/", "docker.io/"} {
		short, ok := strings.CutPrefix(full, prefix)
		if !ok {
			continue
		}
		if back, err := Parse(short); err == nil && back == r {
			return short
		}
	}
	return full
}

// MarshalText writes the canonical form.
func (r Reference) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is Parse.
func (r *Reference) UnmarshalText(text []byte) error {
	ref, err := Parse(string(text))
	if err != nil {
		return err
	}
	*r = ref
	return nil
}
