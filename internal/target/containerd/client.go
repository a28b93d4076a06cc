package containerd

import (
	"context"

	"github.com/opencontainers/go-digest"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/platform"
)

// Client is what a load needs of one namespace of a containerd. Safe for concurrent use.
type Client interface {
	// About asks containerd who it is. It is the first question, and fails where there is nobody to answer.
	About(ctx context.Context) (About, error)
	// Find lists the images that have one of the names, or one of the digests as their target. None is no error.
	Find(ctx context.Context, names []string, digests []digest.Digest) ([]Held, error)
	// Import takes in and unpacks the archive of img, under the name that the archive gives it.
	Import(ctx context.Context, img image.Image) error
	// Tag gives the image called source other names as well, and takes them from whoever has them.
	Tag(ctx context.Context, source string, names []string) error
	// Remove takes names away. One that is not there is no error.
	Remove(ctx context.Context, names []string) error
}

// About is what a containerd says of itself.
type About struct {
	// Platform is that of the containers it runs.
	Platform platform.Platform
	// Roots are the folders that it keeps contents and snapshots in, as far as they are known, on its own file system.
	Roots []string
}

// Held is an image that a containerd has.
type Held struct {
	// Name is one of its names.
	Name string
	// Target is the digest of the index or manifest that the name stands for.
	Target digest.Digest
	// Whole says that nothing of it is missing for this platform, and that it is unpacked.
	Whole bool
	// State is how the client puts that, for people.
	State string
}
