package workflow

import (
	"strings"
	"unicode"
	"unicode/utf16"
)

// harmless makes text that the runner reads back as just that: lines without a command in them.
//
// The runner reads stdout line by line (ProcessInvoker.cs, StreamReader.ReadLine), where a lone CR ends a line too, and
// a byte order mark at the start of the stream is swallowed. A line is a command if it starts with "::" after any
// leading Unicode white space, or if "##[" stands anywhere in it (ActionCommand.cs, TryParseV2 and TryParse). A backslash
// breaks either; the runner does the same to its own markers (OutputManager.cs).
func harmless(text string) string {
	lines := strings.Split(printable(text), "\n")
	for i, line := range lines {
		line = strings.ReplaceAll(line, "##[", `##\[`)
		if body := strings.TrimLeftFunc(line, unicode.IsSpace); strings.HasPrefix(body, "::") {
			line = line[:len(line)-len(body)] + `\` + body
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

// printable makes every kind of line break one LF, and shows control characters (terminal escapes among them), byte order
// marks and invalid UTF-8 as U+FFFD.
func printable(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	return strings.Map(func(c rune) rune {
		if c == '\t' || c == '\n' || !unicode.IsControl(c) && c != '\uFEFF' {
			return c
		}
		return unicode.ReplacementChar
	}, strings.ToValidUTF8(text, string(unicode.ReplacementChar)))
}

// oneLine makes text fit where the runner wants one line: a group's title, a property. The runner trims white space
// around the properties and leading "=" of a value (ActionCommand.cs), so neither is left to it.
func oneLine(text string) string {
	text = harmless(strings.Join(strings.Fields(printable(text)), " "))
	return strings.TrimLeft(text, "= ")
}

// cutMark ends what was cut.
const cutMark = " … (cut)"

// cut shortens s to limit characters as the runner counts them, in UTF-16 units, at a rune boundary and with a mark.
func cut(s string, limit int) string {
	if units(s) <= limit {
		return s
	}
	room := limit - units(cutMark)
	for i, c := range s {
		if room -= utf16.RuneLen(c); room < 0 {
			return s[:i] + cutMark
		}
	}
	return s
}

// units counts UTF-16 units; text is valid UTF-8.
func units(text string) int {
	n := 0
	for _, c := range text {
		n += utf16.RuneLen(c)
	}
	return n
}
