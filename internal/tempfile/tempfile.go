// Package tempfile owns files for what is on its way: each is gone when it is let go of, and where the system lets an open
// file go without a name, also when the process is killed. It does not know what is in them.
package tempfile

import (
	"errors"
	"os"
)

// File is a temporary file that is open.
type File struct {
	*os.File
	named bool // as on Windows, where a file that is open keeps its name
}

// Create makes a file in dir, as os.CreateTemp does. The caller discards it.
func Create(dir, pattern string) (*File, error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, err
	}
	return &File{File: f, named: os.Remove(f.Name()) != nil}, nil
}

// Discard lets go of the file, and of its name where it still has one.
func (f *File) Discard() error {
	err := f.Close()
	if f.named {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
