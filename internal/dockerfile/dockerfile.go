// Package dockerfile owns which images a Dockerfile pulls: the bases of its stages, what it copies or mounts from, and the
// image of its syntax. It does not know which images are meant to be there.
package dockerfile

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pullonce/pullonce/internal/variable"
)

// Use is a place in a Dockerfile that names an image.
type Use struct {
	// Line and Column count from 1, columns in characters.
	Line, Column int
	// Written is what stands there, and Image the same with its variables filled in.
	Written, Image string
	// Err is why the variables can't be filled in, or nil.
	Err error
}

// Uses reads a Dockerfile and returns the images that it pulls, in order. Stages that are named are no images, and neither
// is scratch. Variables have the defaults that ARG gives them; those of the platform are linux/amd64's. An error is one
// of reading, or that no stage begins.
func Uses(r io.Reader) ([]Use, error) {
	f := file{args: platformArgs(), stages: map[string]bool{}}
	err := instructions(r, f.instruction)
	if err != nil {
		return nil, err
	}
	if !f.begun {
		return nil, ErrNoStage
	}
	return f.uses, nil
}

// ErrNoStage is that a Dockerfile has no FROM.
var ErrNoStage = errors.New("no FROM: this is no Dockerfile")

// platformArgs are the variables that BuildKit sets by itself, for linux/amd64 on both sides.
func platformArgs() map[string]string {
	args := map[string]string{}
	for _, side := range []string{"BUILD", "TARGET"} {
		args[side+"PLATFORM"], args[side+"OS"], args[side+"ARCH"], args[side+"VARIANT"] = "linux/amd64", "linux", "amd64", ""
	}
	return args
}

// file is a Dockerfile that is being read.
type file struct {
	args   map[string]string // of those before the first FROM
	begun  bool              // a FROM was there
	stages map[string]bool   // by name, in lower case, and by number
	count  int               // of stages
	uses   []Use
}

// instruction takes the next instruction. words has at least the keyword.
func (f *file) instruction(words []word) {
	flags, rest := cutFlags(words[1:])
	switch strings.ToUpper(words[0].text) {
	case syntaxDirective:
		f.use(words[1], words[1].text)
	case "ARG":
		f.arg(words[1:])
	case "FROM":
		f.from(rest)
	case "COPY", "ADD":
		for _, flag := range flags {
			if source, ok := strings.CutPrefix(flag.text, "--from="); ok {
				f.source(flag.behind("--from="), source)
			}
		}
	case "RUN":
		for _, flag := range flags {
			f.mount(flag)
		}
	}
}

// arg keeps the defaults of variables. Only those before the first stage count where an image is named.
func (f *file) arg(words []word) {
	if f.begun {
		return
	}
	for _, w := range words {
		if name, value, ok := strings.Cut(w.text, "="); ok {
			if filled, err := f.fill(unquote(value)); err == nil {
				f.args[name] = filled
			}
		}
	}
}

// from begins a stage: its base is an image, unless it is an earlier stage or nothing.
func (f *file) from(words []word) {
	f.begun = true
	if len(words) == 0 {
		return
	}
	f.source(words[0], words[0].text)
	f.stages[fmt.Sprint(f.count)] = true
	f.count++
	if len(words) == 3 && strings.EqualFold(words[1].text, "AS") {
		f.stages[strings.ToLower(words[2].text)] = true
	}
}

// mount finds the image in --mount=type=bind,from=IMAGE,….
func (f *file) mount(flag word) {
	options, ok := strings.CutPrefix(flag.text, "--mount=")
	if !ok {
		return
	}
	before := "--mount="
	for option := range strings.SplitSeq(options, ",") {
		if source, ok := strings.CutPrefix(option, "from="); ok {
			f.source(flag.behind(before+"from="), source)
		}
		before += option + ","
	}
}

// source keeps what an instruction takes files from, if it is an image.
func (f *file) source(at word, written string) {
	written = unquote(written)
	filled, err := f.fill(written)
	if err == nil && (f.stages[strings.ToLower(filled)] || filled == "scratch") {
		return
	}
	f.uses = append(f.uses, Use{Line: at.line, Column: at.column, Written: written, Image: filled, Err: err})
}

// use keeps an image that can be no stage.
func (f *file) use(at word, image string) {
	f.uses = append(f.uses, Use{Line: at.line, Column: at.column, Written: image, Image: image})
}

func (f *file) fill(s string) (string, error) {
	return variable.Fill(s, func(name string) (string, bool) {
		value, ok := f.args[name]
		return value, ok
	})
}

// cutFlags takes the flags off the front of an instruction's words.
func cutFlags(words []word) (flags, rest []word) {
	n := 0
	for n < len(words) && strings.HasPrefix(words[n].text, "--") {
		n++
	}
	return words[:n], words[n:]
}

func unquote(s string) string {
	if len(s) > 1 && (s[0] == '"' || s[0] == '\'') && s[0] == s[len(s)-1] {
		return s[1 : len(s)-1]
	}
	return s
}
