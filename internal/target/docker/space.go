package docker

import (
	"fmt"

	"github.com/pullonce/pullonce/internal/image"
)

// room refuses a load that the daemon's disk can't hold, before a byte is sent. It can only tell where the daemon's
// data folder is within sight, and asks for the least that a load may take: every daemon keeps what it is sent, or
// spools it, beside what that unpacks to, which is no smaller.
func (l load) room(first int) error {
	root := l.daemon.root
	if l.endpoint.scheme != "unix" || root == "" {
		return nil
	}
	free, ok := freeSpace(root)
	if !ok {
		return nil
	}
	return enough(root, 2*sizeFrom(l.img, first), free)
}

func enough(root string, need, free int64) error {
	if free >= need {
		return nil
	}
	return fmt.Errorf("there would be no space left on device: at least %s are needed, %s are free at %s", megabytes(need), megabytes(free), root)
}

// sizeFrom is the size of img's layers without the first ones.
func sizeFrom(img image.Image, first int) (n int64) {
	for _, l := range img.Layers()[first:] {
		n += l.Descriptor.Size
	}
	return n
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
