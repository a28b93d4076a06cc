// Package oneline owns how text that came from outside becomes part of a message of ours: what a daemon or a program
// said, in one line that moves no cursor and is not too long. It does not know what the text is about.
package oneline

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Max bounds a line, in runes.
const Max = 400

// Of makes one line of s: white space is single, what does not print is replaced, and of a text that is too long the
// middle goes, because its end names the cause.
func Of(s string) string {
	const head = 4 * utf8.UTFMax * Max
	if len(s) > 2*head {
		s = s[:head] + s[len(s)-head:]
	}
	s = strings.Map(printable, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > Max {
		return string(runes[:Max/2]) + " … " + string(runes[len(runes)-Max/2:])
	}
	return s
}

func printable(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case !unicode.IsPrint(r):
		return '\uFFFD'
	default:
		return r
	}
}
