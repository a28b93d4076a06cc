package pin_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/reference"
)

// lines are pins as lines of the text form.
func lines(pins []pin.Pin) []string {
	var all []string
	for _, p := range pins {
		all = append(all, p.String())
	}
	return all
}

// load reads one file by its bytes.
func load(name, content string) (pin.List, error) {
	file, _, _ := strings.Cut(name, "#")
	return pin.Load(pin.Options{FS: fstest.MapFS{file: {Data: []byte(content)}}, Paths: []string{name}})
}

func TestLineEndingsAndByteOrderMarkMeanNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, path, content string }{
		{"text", "pins.txt", "\uFEFFredis:7 lanes=a\r\n\r\n# comment\r\npostgres:16"},
		{"YAML", "pins.yaml", "\uFEFFimages:\r\n  - ref: redis:7\r\n    lanes: a\r\n\r\n  - postgres:16"},
		{"JSON", "pins.json", "\uFEFF{\"images\": [{\"ref\": \"redis:7\",\r\n\"lanes\": \"a\"}, \"postgres:16\"]}"},
		{"selector", "pins.yaml#x.*", "\uFEFFx:\r\n  a: redis:7\r\n  b: postgres:16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			list, err := load(c.path, c.content)
			require.NoError(t, err)
			require.Len(t, list.Pins, 2)
			require.Equal(t, reference.MustParse("redis:7"), list.Pins[0].Reference)
			require.Equal(t, reference.MustParse("postgres:16"), list.Pins[1].Reference)
			require.Equal(t, len(list.Lane("a")), len(list.Pins))
		})
	}
	list, err := pin.Load(pin.Options{Images: "\uFEFF\r\nredis:7\r\n postgres:16"})
	require.NoError(t, err)
	require.Equal(t, []string{"docker.io/library/redis:7", "docker.io/library/postgres:16"}, lines(list.Pins))
	require.Equal(t, pin.Position{File: pin.Inline, Line: 3, Column: 2}, list.Pins[1].Position)
}

func TestColumnsCountCharacters(t *testing.T) {
	t.Parallel()
	_, err := load("pins.txt", "redis:7 name=ä lane=x")
	require.EqualError(t, err, `pins.txt:1:16: unknown key "lane": use lanes, platforms, name, nodes or type`)
	_, err = load("pins.yaml", `images: [{name: ä, lane: x, ref: a}]`)
	require.EqualError(t, err, `pins.yaml:1:20: unknown key "lane": use lanes, platforms, name, nodes or type`)
}

func TestErrorsAreOneALineInTheOrderOfTheLists(t *testing.T) {
	t.Parallel()
	_, err := pin.Load(pin.Options{
		FS:     fstest.MapFS{"b.txt": {Data: []byte("a:1\nx:-1\ny :1\n")}, "a.yaml": {Data: []byte("images: [~]")}},
		Paths:  []string{"b.txt", "missing", "a.yaml"},
		Images: "\nz:-1\n" + strings.Repeat("ä", 1000),
	})
	found, ok := errors.AsType[pin.Errors](err)
	require.True(t, ok)
	require.Len(t, found, 6)
	require.Equal(t, []string{"b.txt:2:1", "b.txt:3:3", "missing", "a.yaml:1:10", "images input:2:1", "images input:3:1"}, places(found))
	for line := range strings.SplitSeq(err.Error(), "\n") {
		require.Less(t, len(line), 500, "what a file holds is cut")
	}
	require.Len(t, strings.Split(err.Error(), "\n"), 6)
}

func places(findings []pin.Finding) []string {
	var all []string
	for _, f := range findings {
		all = append(all, f.Position.String())
	}
	return all
}

func TestLaneSelectsPins(t *testing.T) {
	t.Parallel()
	list, err := pin.Load(pin.Options{Images: `
every:1
git:1 lanes=*-git
helm:1 lanes=helm,*-git
any:1 lanes=*
middle:1 lanes=a*b*c
slash:1 lanes=*/kind
`})
	require.NoError(t, err)
	for _, c := range []struct{ lane, want string }{
		{"", "every git helm any middle slash"},
		{"gitea-git", "every git helm any"},
		{"-git", "every git helm any"},
		{"git", "every any"},
		{"helm", "every helm any"},
		{"helm2", "every any"},
		{"HELM", "every any"},
		{"abc", "every any middle"},
		{"a-b-b-c", "every any middle"},
		{"acb", "every any"},
		{"ubuntu/24.04/kind", "every any slash"},
		{"[x]", "every any"},
	} {
		t.Run(c.lane, func(t *testing.T) {
			t.Parallel()
			var names []string
			for _, p := range list.Lane(c.lane) {
				names = append(names, p.Reference.Base())
			}
			require.Equal(t, c.want, strings.Join(names, " "))
		})
	}
	only, err := pin.Load(pin.Options{Images: "a:1 lanes=x"})
	require.NoError(t, err)
	require.Empty(t, only.Lane("y"), "a lane may need no image")
}

func TestPathsMayLeaveTheFolderWhereTheFileSystemAllowsIt(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(path.Join(root, "work"), 0o755))
	for name, content := range map[string]string{"pins.txt": "a:1", "one.yml": "images: [b:1]", "work/own.txt": "c:1"} {
		require.NoError(t, os.WriteFile(path.Join(root, name), []byte(content), 0o644))
	}
	list, err := pin.Load(pin.Options{
		FS:    open(func(name string) (fs.File, error) { return os.Open(resolve(root+"/work", name)) }),
		Paths: []string{"./own.txt", "../pins.txt", "../*.yml", root + "/work/../*.txt"},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"own.txt:1:1", "../pins.txt:1:1", "../one.yml:1:10"}, []string{
		list.Pins[0].Position.String(), list.Pins[1].Position.String(), list.Pins[2].Position.String(),
	})
	require.Len(t, list.Pins, 3)
	require.Equal(t, []string{root + "/pins.txt"}, filesOf(list.Notes), "the same file under another path")
}

func filesOf(findings []pin.Finding) []string {
	var all []string
	for _, f := range findings {
		all = append(all, f.File)
	}
	return all
}

func resolve(dir, name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(dir, name)
}

// open is a file system that opens any path.
type open func(string) (fs.File, error)

func (f open) Open(name string) (fs.File, error) { return f(name) }

func TestAFileThatCannotBeReadSaysWhy(t *testing.T) {
	t.Parallel()
	refuses := open(func(name string) (fs.File, error) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	})
	_, err := pin.Load(pin.Options{FS: refuses, Paths: []string{"pins.txt\npins.yaml#a"}})
	require.EqualError(t, err, "pins.txt: permission denied\npins.yaml: permission denied")
}

func TestWhatIsNoTextIsOneError(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"UTF-16": "\xff\xfer\x00", "binary": "\x7fELF\x80\n\x80\n\x80"} {
		_, err := load("pins.txt", content)
		require.EqualError(t, err, "pins.txt: no text in UTF-8", name)
		_, err = load("pins.yaml", content)
		require.EqualError(t, err, "pins.yaml: no text in UTF-8", name)
		_, err = pin.Load(pin.Options{Images: content})
		require.EqualError(t, err, "images input: no text in UTF-8", name)
	}
}

// nested is a chain of aliases, each of which stands for ten of the one before.
func nested(levels int, innermost, template string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "l0: &l0 %s\n", innermost)
	for i := range levels {
		alias := fmt.Sprintf("*l%d", i)
		fmt.Fprintf(&b, "l%d: &l%d "+template+"\n", i+1, i+1, strings.Join([]string{alias, alias, alias, alias, alias, alias, alias, alias, alias, alias}, ", "))
	}
	return b.String()
}

func TestHostileFilesEndSoonWithAnError(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 100_000)
	for _, c := range []struct{ name, path, content, want string }{
		{"too large", "a.txt", strings.Repeat("#", 16<<20+1), "more than 16 MiB"},
		{"many pins", "a.txt", strings.Repeat("a:1\n", 20_000), "more than 10000 images"},
		{"many errors", "a.txt", strings.Repeat("a:-1\n", 20_000), "more than 1000 errors"},
		{"deep list", "a.yaml", "images: " + deep, "exceeded max depth"},
		{"deep and closed", "a.yaml#*.*", strings.Repeat("[", 9_000) + "a" + strings.Repeat("]", 9_000), "a list where an image reference belongs"},
		{"deep manifest", "a.yaml", "apiVersion: v1\nkind: X\nx: " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000), "nested deeper than 500"},
		{"alias bomb under a selector", "a.yaml#l9.*.*.*.*.*.*.*.*.*", nested(9, "[a:1]", "[%s]"), "aliases of aliases"},
		{"alias bomb in a manifest", "a.yaml", "apiVersion: v1\nkind: X\n" + nested(9, "[a:1]", "[%s]"), "aliases of aliases"},
		{"merge bomb", "a.yaml#l9.*", nested(9, "{a: a:1}", "{<<: [%s]}"), "aliases of aliases"},
		{"merge of itself", "a.yaml#a.*", "a: &a {<<: *a, b: c:-1}", "invalid reference"},
		{"alias of itself", "a.yaml#a.*", "a: &a [*a]", "a list where an image reference belongs"},
		{"unknown alias", "a.yaml#a", "a: *b", "unknown anchor"},
		{"nested variables", "compose.yaml", "services: {a: {image: \"" + strings.Repeat("${A:-", 100_000) + strings.Repeat("}", 100_000) + "\"}}", "nested too deeply"},
		{"control characters", "a.txt", "a\x00b:1\n", "invalid reference"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			_, err := load(c.path, c.content)
			require.ErrorContains(t, err, c.want)
			require.Less(t, time.Since(start), time.Minute)
		})
	}
}

func TestVariablesThatDoubleEndInAnError(t *testing.T) {
	t.Parallel()
	_, err := pin.Load(pin.Options{
		FS: fstest.MapFS{
			".env":         {Data: []byte("A=xxxxxxxxxxxxxxxx\n" + strings.Repeat("A=$A$A\n", 60))},
			"compose.yaml": {Data: []byte("services: {a: {image: a:1}}")},
		},
		Paths: []string{"compose.yaml"},
	})
	require.EqualError(t, err, ".env: the value of A: variables stand for more than 16 MiB")
}

func TestVariablesOfTheFileBesideACompose(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, env, want string }{
		{"plain", "V=a", "a"},
		{"spaces", " V = a ", "a"},
		{"YAML style", "V: a", "a"},
		{"exported", "export V=a", "a"},
		{"last one wins", "V=b\nV=a", "a"},
		{"environment wins", "HOST=b\nV=$HOST", "host"},
		{"comment behind", "V=a # b", "a"},
		{"no comment", "V=a#b", "a#b"},
		{"line of comment", "#V=b\nV=a", "a"},
		{"CRLF", "V=a\r\nW=b\r\n", "a"},
		{"not set is empty", "V=a$NOPE", "a"},
		{"from before", "W=a\nV=${W}${X:-b}", "ab"},
		{"single quotes", "V='$W' # b", "$W"},
		{"escaped quote", `V='a\'b'`, "a'b"},
		{"double quotes", "W=a\nV=\"$W # b\"", "a # b"},
		{"escapes", `V="a\"\t\\\$b\x"`, "a\"\t\\$b\\x"},
		{"several lines", "W=\"a\nV=b\"\nV=a", "a"},
		{"a dollar sign alone", "V=a$1$", "a$1$"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := pin.Load(pin.Options{
				FS: fstest.MapFS{
					"dir/.env":         {Data: []byte(c.env)},
					"dir/compose.yaml": {Data: []byte("services: {a: {image: 'a:${NONE?<${V}>}'}}")},
				},
				Paths:  []string{"dir/compose.yaml"},
				Getenv: func(name string) (string, bool) { return "host", name == "HOST" },
			})
			require.ErrorContains(t, err, "NONE is required: <"+c.want+">")
		})
	}
}

// FuzzText holds the canonical text form to its promise: reading it gives the pins again.
func FuzzText(f *testing.F) {
	sum := "@sha256:" + strings.Repeat("0a", 32)
	for _, seed := range []string{
		"redis:7", "redis", "redis:7" + sum, "redis" + sum, "a.b/c:1", "host:5000/x:1", "[::1]:5000/a:1", "index.docker.io/library/redis:7",
		"docker.io/localhost/x:1", "redis:7 lanes=*-git,helm,helm platforms=linux/arm64/v8,linux/arm name=x=y nodes=control-plane # c",
		"\uFEFFa:1\r\n\r\nb:2", "a:1 lanes=a\nlibrary/a:1 lanes=b name=c\na:1 platforms=linux/386", "docker://redis:7", "foo//bar:1",
		"Foo/bar:1", "redis:-7", "redis :7", "a:1" + sum + "\na:1" + sum, "- a:1\n- {ref: b:2, lanes: [x]}", `["a:1", {"ref": "b:2", "name": "z"}]`,
		"a:1 name=#b", "a:1 lanes=,", "a:1 lanes=a name=", "a:1 x", "${A}", "{{ a }}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := pin.Load(pin.Options{Images: text})
		if err != nil {
			found, ok := errors.AsType[pin.Errors](err)
			require.True(t, ok)
			require.NotEmpty(t, found)
			return
		}
		canonical := lines(list.Pins)
		again, err := pin.Load(pin.Options{Images: strings.Join(canonical, "\n")})
		require.NoError(t, err)
		require.Equal(t, canonical, lines(again.Pins))
		require.Empty(t, again.Notes, "each image stands there once")
		for i := range again.Pins {
			again.Pins[i].Position = list.Pins[i].Position
		}
		require.Equal(t, list.Pins, again.Pins)
	})
}

// FuzzYAML reads whatever there is as every form: it must come to an end, and either to pins or to errors.
func FuzzYAML(f *testing.F) {
	for _, seed := range []string{
		"images: [redis:7, {ref: a:1, lanes: x}]", "services: {a: {image: \"${X:-redis}:$Y\"}, b: {build: .}}",
		"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - image: redis:7\n---\nx: y",
		"a: &a\n  x_image: b:1\nc:\n  <<: [*a, {x_image: d}]\n", "a: &a [*a]", "{{ .x }}", "images:\n  - {{ .x }}", "---\n---\n...\n%YAML 1.2\n---\na",
		"? [a]\n: b\n? {c: d}\n: e", "a: !!binary x\nb: !x y\nc: >-\n  d:1\n", "\"a\": 'b'\r\n", "images: [~, '', 7, {ref: }]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{"a.yaml", "a.yaml#*.*", "a.yaml#a", "a.txt"} {
			list, err := load(name, text)
			if err == nil {
				require.NotEmpty(t, list.Pins)
				continue
			}
			found, ok := errors.AsType[pin.Errors](err)
			require.True(t, ok)
			require.NotEmpty(t, found)
		}
	})
}
