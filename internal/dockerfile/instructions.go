package dockerfile

import (
	"bufio"
	"errors"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/pullonce/pullonce/internal/textfile"
)

// word is a run of characters without white space, and where it begins.
type word struct {
	text         string
	line, column int
}

// behind is the place in w that follows prefix.
func (w word) behind(prefix string) word {
	w.column += utf8.RuneCountInString(prefix)
	return w
}

// syntaxDirective stands for the instruction that "# syntax=IMAGE" is to us: BuildKit pulls that image and runs it.
const syntaxDirective = "SYNTAX"

// maxLine bounds a line, in bytes.
const maxLine = 1 << 20

// instructions calls visit with the words of each instruction: lines joined, comments and here-documents left out.
func instructions(r io.Reader, visit func([]word)) error {
	p := parser{escape: "\\", directives: true, visit: visit}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		p.line++
		text := lines.Text()
		if p.line == 1 {
			text = strings.TrimPrefix(text, textfile.ByteOrderMark)
		}
		if !utf8.ValidString(text) {
			return textfile.ErrNotText
		}
		p.next(text)
	}
	p.flush()
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return errors.New("a line of more than 1 MiB: this is no Dockerfile")
	}
	if err := lines.Err(); err != nil {
		return textfile.Cause(err)
	}
	return nil
}

// parser is in the middle of a Dockerfile.
type parser struct {
	line       int
	escape     string // what continues a line at its end
	directives bool   // whether a comment may still be a directive
	words      []word // of the instruction so far
	ends       []hereEnd
	visit      func([]word)
}

// hereEnd is the line that ends a here-document.
type hereEnd struct {
	text string
	tabs bool // tabs before it don't count
}

// next takes one line.
func (p *parser) next(text string) {
	if len(p.ends) > 0 {
		p.skip(text)
		return
	}
	trimmed := strings.TrimSpace(text)
	if strings.HasPrefix(trimmed, "#") {
		p.directive(text)
		return
	}
	p.directives = false
	if trimmed == "" {
		return // also between the lines of one instruction, as BuildKit has it
	}
	body, continued := strings.CutSuffix(strings.TrimRight(text, " \t\r"), p.escape)
	p.words = append(p.words, p.split(body)...)
	if !continued {
		p.flush()
	}
}

// split is the words of a line. A "#" begins no comment behind an instruction.
func (p *parser) split(text string) []word {
	var found []word
	column := 1
	for text != "" {
		rest := strings.TrimLeft(text, " \t")
		column += len(text) - len(rest)
		end := strings.IndexAny(rest, " \t")
		if end < 0 {
			end = len(rest)
		}
		if end > 0 {
			found = append(found, word{rest[:end], p.line, column})
		}
		column += utf8.RuneCountInString(rest[:end])
		text = rest[end:]
	}
	return found
}

// flush hands out the instruction that is complete.
func (p *parser) flush() {
	if len(p.words) == 0 {
		return
	}
	p.visit(p.words)
	if takesHereDocuments(p.words[0].text) {
		p.ends = hereEnds(p.words)
	}
	p.words = nil
}

// directive reads a comment at the top, which may say how the file is to be read ("Parser directives" in the Dockerfile
// reference).
func (p *parser) directive(text string) {
	name, value, ok := strings.Cut(strings.TrimLeft(strings.TrimSpace(text), "# \t"), "=")
	if !p.directives || !ok {
		p.directives = false
		return
	}
	value = strings.TrimSpace(value)
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "escape":
		if value == "`" {
			p.escape = value
		}
	case "syntax":
		at := word{value, p.line, utf8.RuneCountInString(text[:strings.Index(text, value)]) + 1}
		if value != "" {
			p.visit([]word{{text: syntaxDirective}, at})
		}
	case "check":
	default:
		p.directives = false
	}
}

func takesHereDocuments(keyword string) bool {
	keyword = strings.ToUpper(keyword)
	return keyword == "RUN" || keyword == "COPY" || keyword == "ADD"
}

// hereDocument is how a here-document begins, as a word.
var hereDocument = regexp.MustCompile(`^\d*<<(-?)(?:"([^"]+)"|'([^']+)'|([\w.]+))$`)

// hereEnds are the lines that end the here-documents of an instruction, in order.
func hereEnds(words []word) []hereEnd {
	var ends []hereEnd
	for _, w := range words {
		if m := hereDocument.FindStringSubmatch(w.text); m != nil {
			ends = append(ends, hereEnd{text: m[2] + m[3] + m[4], tabs: m[1] == "-"})
		}
	}
	return ends
}

// skip takes one line of a here-document.
func (p *parser) skip(text string) {
	end := p.ends[0]
	text = strings.TrimSuffix(text, "\r")
	if end.tabs {
		text = strings.TrimLeft(text, "\t")
	}
	if text == end.text {
		p.ends = p.ends[1:]
	}
}
