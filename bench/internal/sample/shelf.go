package sample

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// edition changes when images of the same name are made differently.
const edition = "1"

// Shelf is a folder that keeps images from one run to the next: a registry's storage, and what is in it.
type Shelf struct{ dir string }

// NewShelf opens the shelf in a folder.
func NewShelf(dir string) (Shelf, error) {
	s := Shelf{filepath.Join(dir, "images-"+edition)}
	return s, os.MkdirAll(s.Storage(), 0o755)
}

// Storage is the folder that a registry is to serve.
func (s Shelf) Storage() string { return filepath.Join(s.dir, "registry") }

// Get gives the images of a name, and builds them if the shelf has not got them, through the registry at addr, which
// serves its storage.
func (s Shelf) Get(ctx context.Context, image, addr string) ([]Image, error) {
	if image != Five {
		return s.get(ctx, image, addr)
	}
	var five []Image
	for _, part := range []string{Set, Small} {
		images, err := s.get(ctx, part, addr)
		if err != nil {
			return nil, err
		}
		five = append(five, images...)
	}
	return five, nil
}

func (s Shelf) get(ctx context.Context, image, addr string) ([]Image, error) {
	list := filepath.Join(s.dir, image+".json")
	data, err := os.ReadFile(list)
	if err == nil {
		var images []Image
		return images, json.Unmarshal(data, &images)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	specs := Specs(image)
	if specs == nil {
		return nil, fmt.Errorf("no image is called %q", image)
	}
	images, err := Make(ctx, os.DirFS("/"), specs, s.dir, addr)
	if err != nil {
		return nil, err
	}
	data, err = json.MarshalIndent(images, "", "  ")
	if err != nil {
		return nil, err
	}
	return images, publish(list, data)
}

// publish makes a file whole or not at all.
func publish(name string, data []byte) error {
	temp := fmt.Sprintf("%s.%d", name, os.Getpid())
	if err := os.WriteFile(temp, data, 0o644); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return os.Rename(temp, name)
}
