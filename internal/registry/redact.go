package registry

import (
	"regexp"
	"strings"
	"unicode"
)

// maxText is how many runes of foreign text a message shows.
const maxText = 200

// patterns are what must not leave the process in a message, each with what stands there instead.
var patterns = []struct {
	pattern *regexp.Regexp
	shown   string
}{
	// A signed query is a secret, and which of its parameters sign it differs by CDN: none of them is shown.
	{regexp.MustCompile(`(?i)(\bhttps?://[^\s"'?#]*)[?#][^\s"']*`), "${1}?…"},
	{regexp.MustCompile(`(?i)(\bhttps?://)[^\s"'/@]+@`), "${1}…@"},
	// Docker Hub puts the id of the token into the text of its refusals.
	{regexp.MustCompile(`\bdckr_[A-Za-z]+_[A-Za-z0-9_-]+`), "dckr_…"},
	{regexp.MustCompile(`\b(gh[a-z]_[A-Za-z0-9]{8,}|github_pat_[A-Za-z0-9_]{8,}|glpat-[A-Za-z0-9_-]{8,}|AKIA[A-Z0-9]{12,})`), "…"},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)*`), "…"},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}`), "${1} …"},
	{regexp.MustCompile(`(?i)\b(password|secret|signature)(["']?\s*[=:]\s*["']?)[^\s"',&;]{4,}`), "${1}${2}…"},
	{regexp.MustCompile(`(?i)\b((?:access_?|refresh_?|identity_?|id_?)?token)(["']?\s*=\s*["']?|["']\s*:\s*["']?|\s*:\s*["']|\s*:)[^\s"',&;]{4,}`), "${1}${2}…"},
	// What is written like a sentence, as in "getting a token: invalid realm", is one, unless the word is as long as a token.
	{regexp.MustCompile(`(?i)\b((?:access_?|refresh_?|identity_?|id_?)?token)(\s*:\s+)[^\s"',&;]{16,}`), "${1}${2}…"},
}

// clean makes foreign text fit for a message: one line, without secrets, without control characters, and not long.
func clean(text string) string {
	// Secrets go before the cut, so that none survives as a part that its pattern no longer matches.
	text = strings.ToValidUTF8(text[:min(len(text), 16*maxText)], "�")
	for _, s := range patterns {
		text = s.pattern.ReplaceAllString(text, s.shown)
	}
	text = strings.Join(strings.Fields(strings.Map(printable, text)), " ")
	if runes := []rune(text); len(runes) > maxText {
		text = string(runes[:maxText]) + "…"
	}
	return text
}

// printable turns what could move a cursor, begin a line or hide text into a blank.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}
