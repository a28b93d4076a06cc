package textfile_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/textfile"
)

func TestGlobIsSortedAndCrossesFolders(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{"b.yaml": {}, "a/c.yaml": {}, "a/a.yaml": {}, "a/b/x.yaml": {}, "a/b.txt": {}}
	for pattern, want := range map[string]string{
		"*.yaml": "b.yaml", "**/*.yaml": "a/a.yaml a/b/x.yaml a/c.yaml b.yaml", "a/*": "a/a.yaml a/b.txt a/c.yaml",
		"a/{a,c}.yaml": "a/a.yaml a/c.yaml", "not/there.yaml": "not/there.yaml",
	} {
		found, err := textfile.Glob(fsys, pattern)
		require.NoError(t, err)
		require.Equal(t, want, strings.Join(found, " "), pattern)
	}
	_, err := textfile.Glob(fsys, "*.json")
	require.ErrorIs(t, err, textfile.ErrNoMatch)
	_, err = textfile.Glob(fsys, "a/[")
	require.ErrorContains(t, err, "reading the glob")
}

func TestReadTakesTextOnly(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{"a": {Data: []byte("\uFEFFä\n")}, "bin": {Data: []byte("\xff\xfe")}, "dir/x": {}, "big": {Data: make([]byte, 2<<20)}}
	text, err := textfile.Read(fsys, "a", 100)
	require.NoError(t, err)
	require.Equal(t, "ä\n", text)
	_, err = textfile.Read(fsys, "bin", 100)
	require.ErrorIs(t, err, textfile.ErrNotText)
	_, err = textfile.Read(fsys, "gone", 100)
	require.ErrorIs(t, err, textfile.ErrMissing)
	_, err = textfile.Read(fsys, "dir", 100)
	require.EqualError(t, err, "is a folder: write a glob, as in dir/*.yaml")
	_, err = textfile.Read(fsys, "big", 1<<20)
	require.EqualError(t, err, "holds more than 1 MiB")
}

func TestCauseIsWithoutThePath(t *testing.T) {
	t.Parallel()
	require.Equal(t, fs.ErrPermission, textfile.Cause(&fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}))
}

func TestWordsHaveTheirColumns(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]textfile.Word{
		"":                      nil,
		"# a":                   nil,
		"a\tb \r\n":             {{Text: "a", Column: 1}, {Text: "b", Column: 3}},
		"  ä#b c # d":           {{Text: "ä#b", Column: 3}, {Text: "c", Column: 7}},
		"\u00a0x\u2003y\u00a0z": {{Text: "x", Column: 2}, {Text: "y", Column: 4}, {Text: "z", Column: 6}},
	} {
		require.Equal(t, want, textfile.Words(line), "%q", line)
	}
}
