package pin

import (
	"strings"

	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/textfile"
)

// OneEach is the hint for several values that were given as one.
const OneEach = "one a line, or repeat the flag"

// adviceOn says what to do about s, which is no image reference for the reason that err gives, or "" where err says it.
func adviceOn(s string, err error) string {
	name, _, digested := strings.Cut(s, "@")
	switch {
	case strings.Contains(s, ","):
		return "one reference a line, or repeat the flag"
	case digested && validName(name):
		return "a digest is sha256: and 64 hex digits"
	case !strings.HasPrefix(err.Error(), "invalid reference"):
		return ""
	default:
		return "write one reference a line, as in redis:7 or ghcr.io/owner/name:1.2"
	}
}

func validName(name string) bool {
	_, err := reference.Parse(name)
	return err == nil
}

// severalIn is the hint where a path that can't be read seems to be several.
func severalIn(name string) string {
	if strings.Contains(name, ",") {
		return OneEach
	}
	return ""
}

// isDockerfile says whether a text is a Dockerfile: the first instruction is one that only a Dockerfile begins with.
func isDockerfile(text string) bool {
	for line := range strings.Lines(text) {
		words := textfile.Words(line)
		if len(words) == 0 {
			continue
		}
		keyword := strings.ToUpper(words[0].Text)
		return len(words) > 1 && (keyword == "FROM" || keyword == "ARG")
	}
	return false
}
