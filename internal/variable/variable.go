// Package variable owns how variables are filled in where a file says $NAME or ${NAME}, in the words that Compose files
// and Dockerfiles share. It does not know where their values come from.
package variable

import (
	"errors"
	"fmt"
	"strings"
)

// MaxSize bounds what variables may stand for, in bytes.
const MaxSize = 16 << 20

// maxExpansion bounds how deep defaults may nest, as in ${A:-${B:-c}}.
const maxExpansion = 50

// UnsetError is that a variable without a default is not set.
type UnsetError struct{ Name string }

// Error implements error.
func (e UnsetError) Error() string { return e.Name + " is not set and has no default" }

// Fill fills variables in as the Compose specification says under "Interpolation": $A and ${A}, ${A:-default}
// and ${A-default}, ${A:?error} and ${A?error}, ${A:+replacement} and ${A+replacement}, and $$ for a dollar sign; what
// follows the operator is filled in too. Dockerfiles know the same but for the dollar sign. Where both would take a
// variable that is not set as empty, it is an UnsetError: an image without its version would be another image.
func Fill(s string, lookup func(string) (string, bool)) (string, error) {
	return expand(s, lookup, 0)
}

func expand(s string, lookup func(string) (string, bool), depth int) (string, error) {
	if depth > maxExpansion {
		return "", errors.New("variables are nested too deeply")
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		if b.WriteString(before); b.Len() > MaxSize {
			return "", fmt.Errorf("variables stand for more than %d MiB", MaxSize>>20)
		}
		if !found {
			return b.String(), nil
		}
		filled, rest, err := expandOne(after, lookup, depth)
		if err != nil {
			return "", err
		}
		b.WriteString(filled)
		s = rest
	}
}

// expandOne fills in what follows a dollar sign, and gives the rest of the string.
func expandOne(s string, lookup func(string) (string, bool), depth int) (filled, rest string, err error) {
	if rest, ok := strings.CutPrefix(s, "$"); ok {
		return "$", rest, nil
	}
	if braced, ok := strings.CutPrefix(s, "{"); ok {
		end := closing(braced)
		if end < 0 {
			return "", "", errors.New("${ is not closed")
		}
		filled, err := expandBraced(braced[:end], lookup, depth)
		return filled, braced[end+1:], err
	}
	name, rest := cutName(s)
	if name == "" {
		return "$", s, nil // Compose leaves it, too
	}
	v, ok := lookup(name)
	if !ok {
		return "", "", UnsetError{name}
	}
	return v, rest, nil
}

// closing is the index of the brace that closes what was opened before s, or -1.
func closing(s string) int {
	open := 1
	for i := 0; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], "$$"):
			i++
		case strings.HasPrefix(s[i:], "${"):
			open++
			i++
		case s[i] == '}':
			if open--; open == 0 {
				return i
			}
		}
	}
	return -1
}

// expandBraced fills in what stands between braces.
func expandBraced(s string, lookup func(string) (string, bool), depth int) (string, error) {
	name, operation := cutName(s)
	v, ok := lookup(name)
	if operation == "" && name != "" {
		if !ok {
			return "", UnsetError{name}
		}
		return v, nil
	}
	if rest, colon := strings.CutPrefix(operation, ":"); colon {
		operation, ok = rest, ok && v != ""
	}
	if name == "" || operation == "" || !strings.Contains("-+?", operation[:1]) {
		return "", fmt.Errorf("${%.150s} is no valid variable", s)
	}
	replace := operation[0] == '+'
	switch {
	case replace && !ok:
		return "", nil
	case ok && !replace:
		return v, nil
	}
	operand, err := expand(operation[1:], lookup, depth+1)
	if err == nil && operation[0] == '?' {
		err = errors.New(strings.TrimSuffix(name+" is required: "+operand, ": "))
	}
	return operand, err
}

// cutName takes a variable's name off the front of s.
func cutName(s string) (name, rest string) {
	i := 0
	for i < len(s) && (s[i] == '_' || 'a' <= s[i]|0x20 && s[i]|0x20 <= 'z' || i > 0 && '0' <= s[i] && s[i] <= '9') {
		i++
	}
	return s[:i], s[i:]
}
