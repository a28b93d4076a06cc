package audit

import (
	"strings"

	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/wildcard"
)

// registries are those that images may come from. None allows all.
type registries []registry

// registry is a pattern for hosts, and one for the paths below, or "".
type registry struct{ host, path string }

// parseRegistries reads entries as in "ghcr.io", "ghcr.io/acme" or "*.example.com/team-*". A "*" in a host does not reach
// into a path.
func parseRegistries(entries []string) (registries, error) {
	var parsed registries
	var wrong pin.Errors
	for _, entry := range entries {
		bare := strings.ToLower(strings.TrimSuffix(strings.TrimSpace(entry), "/"))
		host, path, _ := strings.Cut(bare, "/")
		switch {
		case strings.Contains(bare, "://"):
			wrong = append(wrong, inputError("allow-registries", pin.KindReference, "%.150q has a scheme: write it as in ghcr.io", entry))
		case host == "":
			wrong = append(wrong, inputError("allow-registries", pin.KindEmpty, "%.150q names no registry", entry))
		case host == "index.docker.io":
			host = "docker.io"
		}
		parsed = append(parsed, registry{host, path})
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	return parsed, nil
}

func (r registries) allow(ref reference.Reference) bool {
	for _, one := range r {
		if wildcard.Match(one.host, ref.Domain()) && one.covers(ref.Path()) {
			return true
		}
	}
	return len(r) == 0
}

// covers says whether path is what the registry's names, or below it.
func (r registry) covers(path string) bool {
	return r.path == "" || wildcard.Match(r.path, path) || wildcard.Match(r.path+"/*", path)
}

// String is the list as people write it.
func (r registries) String() string {
	words := make([]string, len(r))
	for i, one := range r {
		words[i] = strings.TrimSuffix(one.host+"/"+one.path, "/")
	}
	return strings.Join(words, ", ")
}
