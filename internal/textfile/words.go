package textfile

import "unicode"

// Word is a run of characters without white space.
type Word struct {
	Text string
	// Column counts characters from 1.
	Column int
}

// Words takes a line apart, up to its comment: "#" at the start of the line or after white space begins one.
func Words(line string) []Word {
	var found []Word
	start, from, column := -1, 0, 0
	for i, r := range line {
		column++
		switch space := unicode.IsSpace(r); {
		case space && start >= 0:
			found = append(found, Word{line[start:i], from})
			start = -1
		case space || start >= 0:
		case r == '#':
			return found
		default:
			start, from = i, column
		}
	}
	if start >= 0 {
		found = append(found, Word{line[start:], from})
	}
	return found
}
