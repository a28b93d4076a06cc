package docker

import (
	"github.com/pullonce/pullonce/internal/disk"
	"github.com/pullonce/pullonce/internal/image"
)

// room refuses a load that the daemon's disk can't hold, before a byte is sent. It can only tell where the daemon's
// data folder is within sight, and asks for the least that a load may take: every daemon keeps what it is sent, or
// spools it, beside what that unpacks to, which is no smaller.
func (l load) room(first int) error {
	root := l.daemon.root
	if l.endpoint.scheme != "unix" {
		return nil
	}
	return disk.Room(root, 2*sizeFrom(l.img, first))
}

// sizeFrom is the size of img's layers without the first ones.
func sizeFrom(img image.Image, first int) (n int64) {
	for _, l := range img.Layers()[first:] {
		n += l.Descriptor.Size
	}
	return n
}
