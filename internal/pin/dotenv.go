package pin

import (
	"fmt"
	"strings"
)

// dotenv reads a ".env" file as the Compose documentation describes it: NAME=value lines, comments, single quotes for
// literal values, double quotes for escapes; a quoted value may run over several lines. Variables in values that are
// not in single quotes are filled in from getenv and from lines before; one that is not set is empty there.
func dotenv(text string, getenv func(string) (string, bool)) (map[string]string, error) {
	vars, size := map[string]string{}, 0
	lookup := func(name string) (string, bool) {
		if v, ok := getenv(name); ok {
			return v, true
		}
		return vars[name], true
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	for text != "" {
		line, rest, _ := strings.Cut(text, "\n")
		name, plain, ok := strings.Cut(line, "=")
		value := strings.TrimLeft(text[len(line)-len(plain):], " \t")
		text = rest
		name = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), "export "))
		if !ok || strings.HasPrefix(name, "#") {
			continue // a comment, or a name that is handed on from the environment
		}
		literal := strings.HasPrefix(value, "'")
		if literal || strings.HasPrefix(value, `"`) {
			if value, text, ok = quoted(value[1:], value[0]); !ok {
				return nil, fmt.Errorf("the value of %s has no closing quote", name)
			}
		} else {
			value, _, _ = strings.Cut(" "+plain, " #")
			value = strings.TrimSpace(value)
		}
		if literal {
			vars[name] = value
			continue
		}
		filled, err := interpolate(value, lookup)
		if err != nil {
			return nil, fmt.Errorf("the value of %s: %w", name, err)
		}
		if size += len(filled); size > maxFile {
			return nil, fmt.Errorf("variables stand for more than %d MiB", maxFile>>20)
		}
		vars[name] = filled
	}
	return vars, nil
}

// quoted takes a value up to its closing quote off the front of s, and the line that the quote stands in.
func quoted(s string, quote byte) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			_, rest, _ = strings.Cut(s[i:], "\n")
			return b.String(), rest, true
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteString(unescape(s[i], quote))
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// unescape is what a backslash and c stand for between quotes.
func unescape(c, quote byte) string {
	switch {
	case c == quote, quote == '"' && c == '\\':
		return string(c)
	case quote == '"' && c == 'n':
		return "\n"
	case quote == '"' && c == 'r':
		return "\r"
	case quote == '"' && c == 't':
		return "\t"
	default:
		return "\\" + string(c)
	}
}
