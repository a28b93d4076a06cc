package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"

	"github.com/pullonce/pullonce/internal/dockerfile"
	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/textfile"
)

// reader reads what is to be audited.
type reader struct {
	*mentions
	opts  Options
	paths []*imagePath
	read  map[string]bool
	// written says that something stands in one of the files of the entry that is being read, whatever it is.
	written bool
}

// read gathers the images that all paths name. An error is pin.Errors.
func read(opts Options) (*mentions, error) {
	r := &reader{mentions: newMentions(), opts: opts, read: map[string]bool{}}
	if r.opts.Getenv == nil {
		r.opts.Getenv = func(string) (string, bool) { return "", false }
	}
	for _, spec := range opts.ImagePaths {
		r.imagePath(spec)
	}
	for _, entry := range opts.Paths {
		r.entry(strings.TrimSpace(entry))
	}
	if r.mentions.places == 0 && len(r.errors) == 0 {
		r.errorf(pin.Position{File: "manifests"}, pin.KindEmpty, "no image is named in %d files: nothing was audited", len(r.files))
	}
	if len(r.errors) > 0 {
		return nil, r.errors
	}
	r.unmatched()
	return r.mentions, nil
}

// entry reads the files that one path or glob names, each once, and says so if they name no image. That nothing at all
// stands in them is an error: a renderer that failed leaves such an input, and the others would pass without it.
func (r *reader) entry(entry string) {
	names := []string{entry}
	if entry != Stdin {
		var err error
		if names, err = textfile.Glob(r.opts.FS, path.Clean(entry)); err != nil {
			r.errorf(pin.Position{File: entry}, pin.KindNoMatch, "%v", err)
			return
		}
	}
	places, errs, files := r.mentions.places, len(r.errors), len(r.files)
	r.written = false
	for _, name := range names {
		if r.read[name] {
			continue
		}
		r.read[name] = true
		r.files[name] = len(r.files)
		r.open(name)
	}
	switch {
	case r.mentions.places > places, len(r.errors) > errs:
	case len(r.files) > files && !r.written:
		r.errorf(pin.Position{File: entry}, pin.KindEmpty, "nothing is written in it: what should have written it may have failed")
	default:
		r.notef(pin.Position{File: entry}, pin.KindEmpty, "no image is named in it")
	}
}

// open opens a file, tells its form and reads it.
func (r *reader) open(name string) {
	input := r.opts.Stdin
	if name != Stdin {
		f, err := textfile.Open(r.opts.FS, name)
		if err != nil {
			r.errorf(pin.Position{File: name}, pin.KindFile, "%v", err)
			return
		}
		defer f.Close()
		input = f
	}
	if input == nil {
		input = strings.NewReader("")
	}
	buffered := bufio.NewReaderSize(input, sniffed)
	head, err := buffered.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		r.errorf(pin.Position{File: name}, pin.KindFile, "%v", textfile.Cause(err))
		return
	}
	if bytes.HasPrefix(head, []byte{0xFF, 0xFE}) || bytes.HasPrefix(head, []byte{0xFE, 0xFF}) {
		r.errorf(pin.Position{File: name}, pin.KindFile, "%v: it is UTF-16", textfile.ErrNotText)
		return
	}
	r.file(name, formOf(name, head), buffered)
}

// form is how a file names images.
type form int

const (
	formYAML form = iota
	formDockerfile
	formText
)

func (r *reader) file(name string, f form, input io.Reader) {
	switch f {
	case formYAML:
		r.yaml(name, input)
	case formDockerfile:
		r.dockerfile(name, input)
	case formText:
		r.text(name, input)
	}
}

// sniffed is how much of a file is looked at, in bytes, to tell its form where its name does not.
const sniffed = 64 << 10

// formOf tells the form of a file by its name or, where that says nothing, by its first line that is no comment.
func formOf(name string, head []byte) form {
	base := strings.ToLower(path.Base(name))
	switch path.Ext(base) {
	case ".yaml", ".yml", ".json":
		return formYAML
	case ".dockerfile", ".containerfile":
		return formDockerfile
	}
	if stem, _, _ := strings.Cut(base, "."); stem == "dockerfile" || stem == "containerfile" {
		return formDockerfile
	}
	for line := range bytes.Lines(bytes.TrimPrefix(head, []byte(textfile.ByteOrderMark))) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0, line[0] == '#':
			continue
		case dockerfileLine.Match(line):
			return formDockerfile
		case yamlLine.Match(line):
			return formYAML
		}
		return formText
	}
	return formText
}

var (
	dockerfileLine = regexp.MustCompile(`^(?i:FROM|ARG)\s`)
	// yamlLine is a marker, a directive, the start of JSON, an item of a list, or a key. "host:5000/a" has no key.
	yamlLine = regexp.MustCompile(`^(---(\s|$)|%|\{|\[\s*($|["{\[])|- |["']?[\w./-]+["']?\s*:(\s|$))`)
)

// maxLine bounds a line of a list, in bytes.
const maxLine = 1 << 20

// text reads a list: every word is a reference, but for key=value words behind the first of a line.
func (r *reader) text(name string, input io.Reader) {
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		text := lines.Text()
		if n == 1 {
			text = strings.TrimPrefix(text, textfile.ByteOrderMark)
		}
		for i, w := range textfile.Words(text) {
			r.written = true
			p := place{Position: pin.Position{File: name, Line: n, Column: w.Column}}
			switch assignment := strings.Contains(w.Text, "="); {
			case !assignment:
				r.add(p, w.Text, "")
			case i == 0:
				r.addWrong(p, w.Text, fmt.Sprintf("%.150q where an image belongs", w.Text), "write the reference first")
			}
		}
	}
	if err := lines.Err(); err != nil {
		r.errorf(pin.Position{File: name}, pin.KindFile, "%v", textfile.Cause(err))
	}
}

// dockerfile reads what a Dockerfile pulls.
func (r *reader) dockerfile(name string, input io.Reader) {
	r.written = true // one without a stage is an error of its own
	if strings.HasSuffix(strings.ToLower(name), ".dockerignore") {
		return
	}
	uses, err := dockerfile.Uses(input)
	if err != nil {
		r.errorf(pin.Position{File: name}, pin.KindSyntax, "%v", err)
		return
	}
	for _, use := range uses {
		p := place{Position: pin.Position{File: name, Line: use.Line, Column: use.Column}}
		if use.Err != nil {
			r.addWrong(p, use.Written, unfilled(use.Written, use.Err), "give its ARG a default")
			continue
		}
		r.add(p, use.Image, "")
	}
}
