package yamldoc

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// What may stand in place of a string: what errors.Is tells of an error of String.
var (
	ErrTemplate = errors.New("a template is not resolved: render the file first")
	ErrEmpty    = errors.New("null or empty value")
	ErrForm     = errors.New("not a string")
)

// valueError is one of the errors above in words that fit the place.
type valueError struct {
	is      error
	message string
}

// Error implements error.
func (e valueError) Error() string { return e.message }

// Unwrap is for errors.Is.
func (e valueError) Unwrap() error { return e.is }

// String is the string that stands in n, where what is expected, as in "an image reference". All else is an error.
func String(n *yaml.Node, what string) (string, error) {
	n = Resolve(n)
	form := func(format string, args ...any) error { return valueError{ErrForm, fmt.Sprintf(format, args...)} }
	switch tag := n.ShortTag(); {
	case IsTemplate(n):
		return "", ErrTemplate
	case n.Kind == yaml.MappingNode:
		return "", form("a mapping where %s belongs", what)
	case n.Kind == yaml.SequenceNode:
		return "", form("a list where %s belongs", what)
	case tag == "!!null", n.Value == "":
		return "", valueError{ErrEmpty, "null or empty value where " + what + " belongs"}
	case tag != "!!str":
		return "", form("%.150s is not a string where %s belongs: put it in quotes if it is meant", n.Value, what)
	default:
		return n.Value, nil
	}
}

// IsNull says whether n is null, or nothing at all.
func IsNull(n *yaml.Node) bool {
	n = Resolve(n)
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// IsTemplate says whether n is what YAML makes of an unquoted "{{ … }}": a mapping whose key is a mapping.
func IsTemplate(n *yaml.Node) bool {
	return n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle != 0 && len(n.Content) > 0 && n.Content[0].Kind == yaml.MappingNode
}
