package compose

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pullonce/pullonce/internal/variable"
)

// dotenv reads a ".env" file as the Compose documentation describes it: NAME=value and NAME: value lines, comments,
// single quotes for literal values, double quotes for escapes; a quoted value may run over several lines. Variables in
// values that are not in single quotes are filled in from getenv and from lines before; one that is not set is empty.
func dotenv(text string, getenv func(string) (string, bool)) (map[string]string, error) {
	vars, size := map[string]string{}, 0
	lookup := func(name string) (string, bool) {
		if v, ok := getenv(name); ok {
			return v, true
		}
		return vars[name], true
	}
	for text != "" {
		a, rest, err := nextAssignment(text)
		if err == nil && !a.literal {
			a.value, err = variable.Fill(a.value, lookup)
		}
		if size += len(a.value); err == nil && size > variable.MaxSize {
			err = fmt.Errorf("variables stand for more than %d MiB", variable.MaxSize>>20)
		}
		if err != nil {
			return nil, fmt.Errorf("the value of %s: %w", a.name, err)
		}
		if a.name != "" {
			vars[a.name] = a.value
		}
		text = rest
	}
	return vars, nil
}

// assignment is one variable of a ".env" file, before its value is filled in.
type assignment struct {
	name, value string
	literal     bool
}

// nextAssignment takes the first line off the front of text, with the lines that its value runs over. A comment, or a
// name that is handed on from the environment, has no name here.
func nextAssignment(text string) (a assignment, rest string, err error) {
	line, rest, _ := strings.Cut(text, "\n")
	end := strings.IndexAny(line, "=:")
	if end < 0 || strings.HasPrefix(strings.TrimSpace(line), "#") {
		return a, rest, nil
	}
	a.name = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line[:end]), "export "))
	value := strings.TrimLeft(text[end+1:], " \t")
	a.literal = strings.HasPrefix(value, "'")
	if !a.literal && !strings.HasPrefix(value, `"`) {
		value, _, _ = strings.Cut(strings.TrimSpace(line[end+1:]), " #")
		a.value = strings.TrimSpace(value)
		return a, rest, nil
	}
	var closed bool
	if a.value, rest, closed = quoted(value[1:], value[0]); !closed {
		err = errors.New("the quote is not closed")
	}
	return a, rest, err
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
	case quote == '"' && c == '$':
		return "$$" // interpolation makes one of it
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
