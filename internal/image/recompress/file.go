package recompress

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// file is a temporary file. Where the system lets an open file go without a name it has none, so that nothing is left of it,
// however the process ends.
type file struct {
	*os.File
	named bool
}

func create(dir string) (*file, error) {
	f, err := os.CreateTemp(dir, "pullonce-layer-*")
	if err != nil {
		return nil, fmt.Errorf("spooling a layer: %w", err)
	}
	return &file{File: f, named: os.Remove(f.Name()) != nil}, nil
}

// rewind makes the file empty again.
func (f *file) rewind() error {
	_, err := f.Seek(0, io.SeekStart)
	if err == nil {
		err = f.Truncate(0)
	}
	if err != nil {
		return fmt.Errorf("spooling a layer: %w", err)
	}
	return nil
}

// discard lets go of the file, and of its name where it still has one.
func (f *file) discard() error {
	err := f.Close()
	if f.named {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
