package containerd

import (
	"context"
	"io"

	"github.com/opencontainers/go-digest"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/target"
)

// Client is what a load needs of one namespace of a containerd. Safe for concurrent use.
type Client interface {
	// About asks containerd who it is. It is the first question, and fails where there is nobody to answer.
	About(ctx context.Context) (About, error)
	// Find lists the images that q asks for. None is no error.
	Find(ctx context.Context, q Query) ([]Held, error)
	// Import takes in and unpacks an archive, and answers its question then. sent is how many bytes of it were sent.
	Import(ctx context.Context, a Archive) (held []Held, sent int64, err error)
	// Tag gives an image other names, and answers the question then.
	Tag(ctx context.Context, t Tagging) ([]Held, error)
	// Remove takes names away. One that is not there is no error.
	Remove(ctx context.Context, names []string) error
}

// Query asks for images.
type Query struct {
	// Names and Targets are of those that are asked for: they have one of the names, or one of the digests as their target.
	Names   []string
	Targets []digest.Digest
}

// Tagging gives an image names once it is whole.
type Tagging struct {
	// Source is a name that the image has; Names are those that it gets, whoever has them now.
	Source string
	Names  []string
	// Then is asked at the end.
	Then Query
}

// Stager is what a Client is besides where an image can be brought in parts: what an archive leaves out is unpacked from
// what is there.
type Stager interface {
	Client
	// Prepare asks what imports have to know. It only saves the first one the time: what goes wrong is for that to find out.
	Prepare(ctx context.Context)
	// Blobs are those of digests whose content is there.
	Blobs(ctx context.Context, digests []digest.Digest) ([]digest.Digest, error)
	// Named are the names that begin with prefix.
	Named(ctx context.Context, prefix string) ([]string, error)
	// Names are the names of images that have one of the digests, at least one, as their target.
	Names(ctx context.Context, digests []digest.Digest) ([]string, error)
}

// Archive is what is imported.
type Archive struct {
	// Image has the name that its archive gives it.
	Image image.Image
	// Without is how many of its first layers are left out.
	Without int
	// Begin is waited for before the archive begins, when whoever takes it has been started; nil is at once.
	Begin func(ctx context.Context) error
	// Ready is waited for before the archive ends, once all layers are sent; nil is ready at once.
	Ready func(ctx context.Context) error
	// Then is asked once it is imported; nil is nothing.
	Then *Query
}

// input writes the archive into a client's command, and counts what that took. Its blobs are in a folder of their own, and
// what names its image comes last, so that a stream that is cut off names nothing.
func (a Archive) input(sent *int64) (func(context.Context, io.Writer) error, error) {
	img, err := target.Apart(a.Image)
	if err != nil {
		return nil, err
	}
	if img, err = img.IndexLast(); err != nil {
		return nil, err
	}
	atOnce := func(context.Context) error { return nil }
	begin, ready := atOnce, atOnce
	if a.Begin != nil {
		begin = a.Begin
	}
	if a.Ready != nil {
		ready = a.Ready
	}
	return func(ctx context.Context, w io.Writer) error {
		if err := begin(ctx); err != nil {
			return err
		}
		return image.EncodeWhen(ctx, &counter{w, sent}, img, a.Without, ready)
	}, nil
}

// counter counts what was written.
type counter struct {
	w io.Writer
	n *int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	*c.n += int64(n)
	return n, err
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
