package audit_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/audit"
	"github.com/pullonce/pullonce/internal/goldentest"
	"github.com/pullonce/pullonce/internal/pin"
)

// TestGolden audits each archive in testdata and compares what came of it with the golden file beside it. The members
// "pins", "stdin", "paths", "image-paths", "allow-registries" and "env" are the options; all others are files, which are
// audited if "paths" is not there.
func TestGolden(t *testing.T) {
	t.Parallel()
	goldentest.Archives(t, func(t *testing.T, archive *txtar.Archive) string {
		return describe(audit.Run(options(t, archive)))
	})
}

// TestEveryKindIsInAGolden holds the goldens to all kinds of findings.
func TestEveryKindIsInAGolden(t *testing.T) {
	t.Parallel()
	goldens, err := filepath.Glob("testdata/*.golden")
	require.NoError(t, err)
	var all strings.Builder
	for _, golden := range goldens {
		data, err := os.ReadFile(golden)
		require.NoError(t, err)
		all.Write(data)
	}
	for _, kind := range audit.Kinds() {
		require.Contains(t, all.String(), "["+string(kind)+"]")
	}
}

// unescape lets archives hold what an editor would not keep: <CR>, <TAB> and <HUGE>, which is 300 kB of a file.
var unescape = strings.NewReplacer("<CR>", "\r", "<TAB>", "\t", "<HUGE>", strings.Repeat("image: not/this:1 # {{ }} ", 12_000))

func options(t *testing.T, archive *txtar.Archive) audit.Options {
	t.Helper()
	files, env := fstest.MapFS{}, map[string]string{}
	opts := audit.Options{FS: files, Getenv: func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}}
	var paths, all []string
	for _, member := range archive.Files {
		switch data := unescape.Replace(string(member.Data)); member.Name {
		case "pins":
			list, err := pin.Load(pin.Options{FS: fstest.MapFS{"pins.txt": {Data: []byte(data)}}, Paths: []string{"pins.txt"}})
			require.NoError(t, err)
			opts.Pins, opts.Warnings = list.Pins, list.Warnings
		case "stdin":
			opts.Stdin = strings.NewReader(data)
		case "paths":
			paths = strings.Fields(data)
		case "image-paths":
			opts.ImagePaths = strings.Fields(data)
		case "allow-registries":
			opts.AllowRegistries = strings.Fields(data)
		case "env":
			for line := range strings.Lines(data) {
				name, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
				env[name] = v
			}
		default:
			files[member.Name] = &fstest.MapFile{Data: []byte(data)}
			all = append(all, member.Name)
		}
	}
	if opts.Paths = paths; paths == nil {
		opts.Paths = all
	}
	return opts
}

// describe is what an audit came to, for people.
func describe(r audit.Result, err error) string {
	var b strings.Builder
	if wrong, ok := errors.AsType[pin.Errors](err); ok {
		for _, e := range wrong {
			fmt.Fprintf(&b, "error %s [%s]\n", e, e.Kind)
		}
		return b.String()
	}
	if err != nil {
		return err.Error()
	}
	fmt.Fprintf(&b, "%d images in %d places\n", r.Images, r.Places)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "[%s] %s", f.Kind, f)
		if f.Source != "" {
			fmt.Fprintf(&b, " <%s>", f.Source)
		}
		if b.WriteByte('\n'); f.Hint != "" {
			fmt.Fprintf(&b, "    %s\n", f.Hint)
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note %s [%s]\n", note, note.Kind)
	}
	return b.String()
}
