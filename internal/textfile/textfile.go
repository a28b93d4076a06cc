// Package textfile owns how the files that people name are found, read and taken apart into words: globs, bounds, text in
// UTF-8, columns. It does not know what the files hold.
package textfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

var (
	// ErrMissing is that a file is not there.
	ErrMissing = errors.New("no such file")
	// ErrNotText is that a file is no text in UTF-8.
	ErrNotText = errors.New("no text in UTF-8")
	// ErrNoMatch is that a glob stands for nothing.
	ErrNoMatch = errors.New("the glob matches no file")
)

// ByteOrderMark may stand at the start of a file, and means nothing in UTF-8.
const ByteOrderMark = "\uFEFF"

// Glob is the files that name stands for, sorted; a name without glob characters stands for itself, there or not. "**"
// crosses folders. No match is ErrNoMatch.
func Glob(fsys fs.FS, name string) ([]string, error) {
	if !strings.ContainsAny(name, "*?[{") {
		return []string{name}, nil
	}
	base, pattern := doublestar.SplitPattern(name)
	found, err := doublestar.Glob(under{fsys, base}, pattern, doublestar.WithFilesOnly(), doublestar.WithNoFollow(), doublestar.WithFailOnIOErrors())
	if err != nil {
		return nil, fmt.Errorf("reading the glob: %w", Cause(err))
	}
	found = slices.DeleteFunc(found, func(name string) bool { return hidden(name, pattern) })
	if len(found) == 0 {
		return nil, ErrNoMatch
	}
	for i := range found {
		found[i] = path.Join(base, found[i])
	}
	slices.Sort(found)
	return found, nil
}

// hidden says whether a file, or a folder on the way to it, begins with a dot that the pattern does not spell out: as in a
// shell, a wildcard does not stand for it.
func hidden(name, pattern string) bool {
	pieces := strings.FieldsFunc(pattern, func(r rune) bool { return strings.ContainsRune("/{,}", r) })
	for segment := range strings.SplitSeq(name, "/") {
		spelled := func(piece string) bool {
			literal := piece
			if meta := strings.IndexAny(piece, "*?["); meta >= 0 {
				literal = piece[:meta]
			}
			return strings.HasPrefix(literal, ".") && strings.HasPrefix(segment, literal)
		}
		if strings.HasPrefix(segment, ".") && !slices.ContainsFunc(pieces, spelled) {
			return true
		}
	}
	return false
}

// under is the part of a file system below a folder, for any folder that the file system opens: fs.Sub would refuse
// absolute ones and "..".
type under struct {
	fs.FS
	base string
}

// Open implements fs.FS.
func (u under) Open(name string) (fs.File, error) { return u.FS.Open(path.Join(u.base, name)) }

// Open opens a file for reading. Its errors are those of Cause, and a folder is one.
func Open(fsys fs.FS, name string) (fs.File, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, Cause(err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		f.Close()
		return nil, fmt.Errorf("is a folder: write a glob, as in %s", path.Join(name, "*.yaml"))
	}
	return f, nil
}

// Read reads a file whole: at most most bytes, valid UTF-8, without a byte order mark.
func Read(fsys fs.FS, name string, most int64) (string, error) {
	f, err := Open(fsys, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return "", Cause(err)
	case int64(len(data)) > most:
		return "", fmt.Errorf("holds more than %d MiB", most>>20)
	case !utf8.Valid(data):
		return "", ErrNotText
	}
	return strings.TrimPrefix(string(data), ByteOrderMark), nil
}

// Cause is a file system's error without the path, which whoever shows it names.
func Cause(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return ErrMissing
	}
	return err
}
