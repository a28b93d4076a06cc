package lane

import (
	"context"
	"slices"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/target"
)

// muchShared is the part of an image, one in so many, that must be common with another for it to wait for that one.
const muchShared = 4

// unpacksTwice says whether a target would unpack layers of two images twice that it gets at the same time.
func (r *run) unpacksTwice(ctx context.Context) bool {
	return slices.ContainsFunc(r.Targets, func(t Target) bool {
		twice, ok := t.Target.(target.Twice)
		return ok && twice.UnpacksTwice(ctx)
	})
}

// bases knows which images bring the layers that others begin with. The zero value knows of none, and asks nobody to wait.
type bases struct {
	matter bool
	coming []*ticket // on their way
	there  []*ticket // those that have gone through
}

// wait says whether img had better wait: a good part of it is on its way with another.
func (b *bases) wait(img image.Image) bool {
	if !b.matter {
		return false
	}
	fresh := longest(img, b.coming) - longest(img, b.there)
	return fresh > 0 && fresh*muchShared >= img.Size()
}

// begin notes an image that goes; end, that it has gone through. Nobody waits for one of which nothing came.
func (b *bases) begin(t *ticket) { b.coming = append(b.coming, t) }

func (b *bases) end(t *ticket) {
	b.coming = slices.DeleteFunc(b.coming, func(other *ticket) bool { return other == t })
	b.there = append(b.there, t)
}

// longest is the most bytes of leading layers that img has in common with one of the others.
func longest(img image.Image, others []*ticket) (most int64) {
	for _, other := range others {
		most = max(most, leading(img, other.img))
	}
	return most
}

// leading is the size of the leading layers of img that other begins with, too.
func leading(img, other image.Image) (size int64) {
	for i, l := range img.Layers() {
		if i >= len(other.Layers()) || other.Layers()[i].DiffID != l.DiffID {
			return size
		}
		size += l.Descriptor.Size
	}
	return size
}
