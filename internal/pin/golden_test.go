package pin_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/pullonce/pullonce/internal/goldentest"
	"github.com/pullonce/pullonce/internal/pin"
)

// TestGolden loads each archive in testdata and compares what came of it with the golden file beside it. The members
// "paths", "images" and "env" are the options, all others are files.
func TestGolden(t *testing.T) {
	t.Parallel()
	goldentest.Archives(t, func(_ *testing.T, archive *txtar.Archive) string {
		return describe(pin.Load(options(archive)))
	})
}

func options(archive *txtar.Archive) pin.Options {
	files, env := fstest.MapFS{}, map[string]string{}
	opts := pin.Options{FS: files, Getenv: func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}}
	for _, member := range archive.Files {
		switch data := string(member.Data); member.Name {
		case "paths":
			opts.Paths = []string{data}
		case "images":
			opts.Images = data
		case "env":
			for line := range strings.Lines(data) {
				name, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
				env[name] = v
			}
		default:
			files[member.Name] = &fstest.MapFile{Data: member.Data}
		}
	}
	return opts
}

// describe is what Load came to, for people.
func describe(list pin.List, err error) string {
	var b strings.Builder
	if found, ok := errors.AsType[pin.Errors](err); ok {
		section(&b, "errors", []pin.Finding(found))
		return b.String()
	}
	if err != nil {
		return err.Error()
	}
	b.WriteString("pins\n")
	for _, p := range list.Pins {
		fmt.Fprintf(&b, "  %s: %s\n", p.Position, p)
	}
	section(&b, "warnings", list.Warnings)
	section(&b, "notes", list.Notes)
	return b.String()
}

func section(b *strings.Builder, title string, findings []pin.Finding) {
	if len(findings) == 0 {
		return
	}
	b.WriteString(title + "\n")
	for _, f := range findings {
		fmt.Fprintf(b, "  %s [%s]", f, f.Kind)
		if f.Hint != "" {
			fmt.Fprintf(b, " (%s)", f.Hint)
		}
		b.WriteByte('\n')
	}
}
