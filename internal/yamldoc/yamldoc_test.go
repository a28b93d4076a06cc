package yamldoc_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pullonce/pullonce/internal/yamldoc"
)

// places are the keys "x" of all documents with the line and column of their values, and the syntax errors.
func places(t *testing.T, text string) []string {
	t.Helper()
	found := []string{}
	for d, err := range yamldoc.Documents(strings.NewReader(text)) {
		if wrong, ok := errors.AsType[*yamldoc.SyntaxError](err); ok {
			found = append(found, fmt.Sprintf("error %d:%d", wrong.Line, wrong.Column))
			continue
		}
		require.NoError(t, err)
		if x := d.Get(d.Root, "x"); x != nil {
			found = append(found, fmt.Sprintf("%s %d:%d", x.Value, x.Line, x.Column))
		}
	}
	return found
}

func TestDocumentsKnowWhereTheyStand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"none", "", []string{}},
		{"blank", "\n\n# c\n", []string{}},
		{"one", "x: a", []string{"a 1:4"}},
		{"two", "x: a\n---\nx: b\n", []string{"a 1:4", "b 3:4"}},
		{"marker first", "---\nx: a\n---\nx: b", []string{"a 2:4", "b 4:4"}},
		{"empty ones", "---\n---\n# c\n---\n\n---\nx: a\n---\n", []string{"a 7:4"}},
		{"content behind the marker", "--- {x: a}\n---\t{x: b}\n", []string{"a 1:9", "b 2:9"}},
		{"no marker", "x: a\n---x: b\n", []string{"a 1:4"}},
		{"comment behind the marker", "--- # c\nx: a\n", []string{"a 2:4"}},
		{"comments before the marker", "# Source: a\n\n---\nx: a\n", []string{"a 4:4"}},
		{"directive", "%YAML 1.1\n---\nx: a\n...\n%YAML 1.1\n---\nx: b\n", []string{"a 3:4", "b 7:4"}},
		{"end marker", "x: a\n...\nx: b\n...\n", []string{"a 1:4", "b 3:4"}},
		{"CRLF", "---\r\nx: a\r\n---\r\nx: b\r\n", []string{"a 2:4", "b 4:4"}},
		{"byte order marks", "\uFEFF---\nx: a\n\uFEFF---\nx: b\n", []string{"a 2:4", "b 4:4"}},
		{"marker inside a block", "y: |\n  ---\n  x: no\nx: a\n---\nx: b\n", []string{"a 4:4", "b 6:4"}},
		{"JSON", "{\n\t\"x\": \"a\"\n}\n", []string{"a 2:7"}},
		{"alias", "y: &y v\nx: *y\n---\nx: b\n", []string{"y 2:4", "b 4:4"}},
		{"an error does not hide what follows", "x: a\n---\ny: {\n---\nx: b\n", []string{"a 1:4", "error 4:1", "b 5:4"}},
		{"an anchor is its document's", "y: &y v\n---\nx: *y\n---\nx: b\n", []string{"error 2:1", "b 5:4"}},
		{"template", "x: a\n---\n# {{ c }}\ny: ä {{ if }}\n  {{ end }}: }\n", []string{"a 1:4", "error 4:6"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, places(t, c.text))
		})
	}
}

func TestAStreamMayComeInPieces(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("---\nx: a\ny: "+strings.Repeat("b", 100_000)+"\n", 3)
	n := 0
	for d, err := range yamldoc.Documents(iotest.HalfReader(strings.NewReader(text))) {
		require.NoError(t, err)
		require.Equal(t, 3*n+2, d.Get(d.Root, "x").Line)
		n++
	}
	require.Equal(t, 3, n)
}

func TestReadingMayStop(t *testing.T) {
	t.Parallel()
	for d, err := range yamldoc.Documents(strings.NewReader("x: a\n---\nx: b\n---\n}\n")) {
		require.NoError(t, err)
		require.Equal(t, "a", d.Get(d.Root, "x").Value)
		break
	}
}

func TestAnErrorOfReadingEndsTheStream(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	var got []error
	for _, err := range yamldoc.Documents(io.MultiReader(strings.NewReader("x: a\n---\n"), iotest.ErrReader(broken))) {
		got = append(got, err)
	}
	require.Len(t, got, 2)
	require.NoError(t, got[0])
	require.ErrorIs(t, got[1], broken)
}

func TestADocumentThatIsTooLargeEndsTheStream(t *testing.T) {
	t.Parallel()
	lines := strings.NewReader("x: a\n---\n" + strings.Repeat("#", yamldoc.MaxDocument) + "\n")
	var got []error
	for _, err := range yamldoc.Documents(lines) {
		got = append(got, err)
	}
	require.Len(t, got, 2)
	require.NoError(t, got[0])
	require.EqualError(t, got[1], "a document of more than 64 MiB begins before line 3")
}

// parse is the first document of text, and what it tells.
func parse(t *testing.T, text string) (*yamldoc.Document, *[]string) {
	t.Helper()
	for d, err := range yamldoc.Documents(strings.NewReader(text)) {
		require.NoError(t, err)
		told := &[]string{}
		d.Tell = func(at *yaml.Node, problem error) {
			*told = append(*told, fmt.Sprintf("%d:%d %v", at.Line, at.Column, problem))
		}
		return d, told
	}
	require.Fail(t, "no document")
	return nil, nil
}

func TestPairsOfAMappingAndOfWhatItMergesIn(t *testing.T) {
	t.Parallel()
	d, told := parse(t, `
base: &base {a: 1, b: 1}
more: &more {b: 2, c: 2}
own:
  <<: [*base, *more]
  b: own
  d: first
  d: last
`)
	var got []string
	for _, p := range d.Pairs(d.Get(d.Root, "own")) {
		got = append(got, p.Key+"="+p.Value.Value)
	}
	require.Equal(t, []string{"b=own", "d=last", "a=1", "c=2"}, got)
	require.Equal(t, []string{`8:3 key "d" is there twice: it also stands in line 7`}, *told)
	require.Empty(t, d.Pairs(d.Get(d.Root, "own").Content[3]), "a scalar has none")
	require.Nil(t, d.Get(d.Root, "absent"))
}

func TestFindFollowsPatternsThroughMappingsAndLists(t *testing.T) {
	t.Parallel()
	d, _ := parse(t, "a: {x1: [p, q], x2: {0: r}, y: s}\nb: &b {x1: [t]}\nc: *b\n")
	for path, want := range map[string]string{
		"a.x*.0": "p r", "*.x1.*": "p q t t", "a.y": "s", "a.y.z": "", "c.x1.0": "t", "*.y": "s",
	} {
		var got []string
		d.Again().Find(d.Root, strings.Split(path, "."), func(n *yaml.Node) { got = append(got, n.Value) })
		require.Equal(t, want, strings.Join(got, " "), path)
	}
}

func TestAliasesOfAliasesEndAndAreToldOnce(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("l0: &l0 [a]\n")
	for i := range 9 {
		fmt.Fprintf(&b, "l%d: &l%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*l%d, ", i), 10), ", "))
	}
	d, told := parse(t, b.String())
	d.Find(d.Root, strings.Split("l9"+strings.Repeat(".*", 10), "."), func(*yaml.Node) {})
	require.Len(t, *told, 1)
	require.Contains(t, (*told)[0], "aliases of aliases")
}

func TestStringTellsWhatStandsInItsPlace(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]error{
		"a:1": nil, "'7'": nil, "7": yamldoc.ErrForm, "true": yamldoc.ErrForm, "[a]": yamldoc.ErrForm, "{a: b}": yamldoc.ErrForm,
		"": yamldoc.ErrEmpty, "~": yamldoc.ErrEmpty, "''": yamldoc.ErrEmpty, "{{ .x }}": yamldoc.ErrTemplate, "2024-01-01": yamldoc.ErrForm,
	} {
		d, _ := parse(t, "x: "+value)
		_, err := yamldoc.String(d.Get(d.Root, "x"), "a reference")
		require.ErrorIs(t, err, want, value)
	}
}
