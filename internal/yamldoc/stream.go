// Package yamldoc owns reading YAML, and JSON with it, as a stream of documents whose nodes know where they stand. One
// document is in memory at a time, what is wrong with one does not hide the next, and aliases can't blow up. It does not
// know what the documents mean.
//
// The parser is go.yaml.in/yaml/v3: it takes time in proportion to its input, and its nodes carry lines and columns.
package yamldoc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pullonce/pullonce/internal/textfile"
)

// MaxDocument bounds one document of a stream, in bytes. A cluster's whole list of pods stays below it.
const MaxDocument = 64 << 20

// Documents are the documents of a stream, one at a time: a document is good until the next one is asked for. What is no
// YAML is a *SyntaxError in place of a document, and the stream goes on behind it; any other error ends the stream.
// Documents without content are left out.
func Documents(r io.Reader) iter.Seq2[*Document, error] {
	return func(yield func(*Document, error) bool) {
		s := splitter{lines: bufio.NewReaderSize(r, 64<<10)}
		for {
			text, before, err := s.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !parse(text, before, yield) {
				return
			}
		}
	}
}

// parse yields what text holds: as a rule one document. before is how many lines the stream has before it.
func parse(text []byte, before int, yield func(*Document, error) bool) bool {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var node yaml.Node
		err := dec.Decode(&node)
		switch {
		case errors.Is(err, io.EOF):
			return true
		case err != nil:
			return yield(nil, syntaxError(text, before, err))
		case len(node.Content) == 0:
			continue
		}
		move(node.Content[0], before)
		if !yield(newDocument(node.Content[0], text), nil) {
			return false
		}
	}
}

// move makes the lines of a document those of its stream.
func move(n *yaml.Node, lines int) {
	if lines == 0 {
		return
	}
	n.Line += lines
	for _, child := range n.Content {
		move(child, lines)
	}
}

// splitter cuts a stream where a document begins or ends. Both are markers that can stand nowhere else at the start of a
// line (YAML 1.2.2, 9.1.2 "Document Markers").
type splitter struct {
	lines *bufio.Reader
	text  bytes.Buffer
	read  int // lines
	// pending says that the line in text begins a document whose predecessor was handed out before.
	pending []byte
	done    bool
}

// next is the text up to the next cut, good until the next call, and how many lines were before it. The end is io.EOF.
func (s *splitter) next() (text []byte, before int, err error) {
	s.text.Reset()
	s.text.Write(s.pending)
	before = s.read
	if len(s.pending) > 0 {
		before--
	}
	begun := len(s.pending) > 0
	s.pending = nil
	for !s.done {
		from := s.text.Len()
		if err := s.line(); err != nil {
			return nil, before, err
		}
		line := bytes.TrimPrefix(s.text.Bytes()[from:], []byte(textfile.ByteOrderMark))
		starts := isMarker(line, "---")
		if starts && begun {
			s.pending = bytes.Clone(line)
			return s.text.Bytes()[:from], before, nil
		}
		if isMarker(line, "...") {
			return s.text.Bytes(), before, nil
		}
		begun = begun || starts || !isPrologue(line)
	}
	if s.text.Len() == 0 {
		return nil, before, io.EOF
	}
	return s.text.Bytes(), before, nil
}

// line appends the next line to text.
func (s *splitter) line() error {
	for {
		part, err := s.lines.ReadSlice('\n')
		if s.text.Len()+len(part) > MaxDocument {
			return fmt.Errorf("a document of more than %d MiB begins before line %d", MaxDocument>>20, s.read+1)
		}
		s.text.Write(part)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			s.done = true
		case err != nil:
			return fmt.Errorf("reading: %w", textfile.Cause(err))
		}
		s.read++
		return nil
	}
}

// isMarker says whether line is a document marker: alone, or with white space behind it.
func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || strings.IndexByte(" \t\r\n", rest[0]) >= 0)
}

// isPrologue says whether line may stand before the marker of its document: blank lines, comments, directives.
func isPrologue(line []byte) bool {
	trimmed := bytes.TrimSpace(line)
	return len(trimmed) == 0 || trimmed[0] == '#' || line[0] == '%'
}
