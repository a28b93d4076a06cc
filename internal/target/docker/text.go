package docker

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText bounds what a daemon says within an error, in runes.
const maxText = 400

// oneLine makes text that came from outside fit for an error: one line, nothing that moves a cursor, not too long.
// The end of a daemon's message names the cause, so it is the middle that goes.
func oneLine(s string) string {
	const head = 4 * utf8.UTFMax * maxText
	if len(s) > 2*head {
		s = s[:head] + s[len(s)-head:]
	}
	s = strings.Map(printable, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > maxText {
		return string(runes[:maxText/2]) + " … " + string(runes[len(runes)-maxText/2:])
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
