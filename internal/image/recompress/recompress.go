// Package recompress owns that the layers of an image are compressed anew, with zstd, which daemons unpack in a fraction of
// the time that gzip takes them. What comes of it is the same image to whoever trusts digests: root, manifest and config are
// untouched, and each layer's content is held to the config's diff id. It does not know registries or stores.
package recompress

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
)

// maxWorkers bounds the layers that are worked on at a time where nobody says how many: memory, and connections to the
// registry that the layers come from.
const maxWorkers = 4

// Options say where and how layers are recompressed. The zero value works.
type Options struct {
	// Dir is the folder for recompressed layers; "" is the system's for temporary files.
	Dir string
	// Workers is how many layers are worked on at a time, each in some 8 MB and on up to two cores; 0 is one for each core, but
	// no more than 4.
	Workers int
	// MaxContent bounds what a layer may unpack to, in bytes; 0 is image.MaxLayer.
	MaxContent int64
}

// Spool keeps recompressed layers on disk, each made once for all images that have it. Safe for concurrent use.
type Spool struct {
	options Options
	turns   chan struct{} // one for each layer that is worked on
	packers sync.Pool     // those that are idle, until the memory is needed elsewhere

	mu     sync.Mutex
	layers map[identity]*layer
}

// New makes a Spool. The caller closes it.
func New(o Options) *Spool {
	if o.Workers <= 0 {
		o.Workers = min(runtime.GOMAXPROCS(0), maxWorkers)
	}
	o.MaxContent = cmp.Or(o.MaxContent, image.MaxLayer)
	return &Spool{
		options: o, turns: make(chan struct{}, o.Workers), packers: sync.Pool{New: func() any { return new(packer) }}, layers: map[identity]*layer{},
	}
}

// Close frees what is kept. No image of the Spool is of use after it.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free(func(*layer) bool { return true })
}

// Read hands layer i of an image to use, from its first byte to io.EOF, which says that the blob was the right one. It may
// call use again, from the first byte on, where what came was wrong.
type Read func(ctx context.Context, i int, use func(io.Reader) error) error

// Claim is an image that will be wanted recompressed.
type Claim struct {
	spool *Spool
	img   image.Image
	wants map[identity]int // the layers that are recompressed, and the first index of each
}

// Claim notes that img will be wanted recompressed. What it shares with other claims is kept until the last of them is
// closed.
func (s *Spool) Claim(img image.Image) *Claim {
	c := &Claim{spool: s, img: img, wants: map[identity]int{}}
	for i, l := range img.Layers() {
		if _, ok := c.wants[identify(l)]; !ok && !img.Artifact() && recompressible(l.Descriptor.MediaType) {
			c.wants[identify(l)] = i
			s.hold(identify(l))
		}
	}
	return c
}

// Size is what the layers that are recompressed have now, each counted once, in bytes. It is 0 where Image has nothing to do.
func (c *Claim) Size() int64 {
	var size int64
	for _, i := range c.wants {
		size += c.img.Layers()[i].Descriptor.Size
	}
	return size
}

// Image is the image with layers in zstd. Its layers can be read until the claim is closed, and those that stay as they are
// as long as before. Layers are read by read; nil reads them from the image. An image of which no layer is to be recompressed
// is handed back as it is.
//
// The same image gives the same bytes. What does not unpack, or unpacks to another content than the config says, is
// image.ErrVerify.
func (c *Claim) Image(ctx context.Context, read Read) (image.Image, error) {
	if len(c.wants) == 0 {
		return c.img, nil
	}
	if read == nil {
		read = readImage(c.img)
	}
	if err := c.pack(ctx, read); err != nil {
		return image.Image{}, fmt.Errorf("recompressing %s: %w", c.img.Reference().Familiar(), err)
	}
	img, err := image.New(c.parts())
	if err != nil {
		return image.Image{}, fmt.Errorf("recompressing %s: %w", c.img.Reference().Familiar(), err)
	}
	return img, nil
}

// pack recompresses the layers that are wanted, the largest first: so no large one is left to the end, alone on one core.
func (c *Claim) pack(ctx context.Context, read Read) error {
	order := make([]int, 0, len(c.wants))
	for _, i := range c.wants {
		order = append(order, i)
	}
	slices.SortFunc(order, func(a, b int) int {
		size := func(i int) int64 { return c.img.Layers()[i].Descriptor.Size }
		return cmp.Or(cmp.Compare(size(b), size(a)), a-b)
	})
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.spool.options.Workers)
	for _, i := range order {
		group.Go(func() error {
			return c.spool.pack(ctx, c.img.Layers()[i], func(use func(io.Reader) error) error { return read(ctx, i, use) })
		})
	}
	return group.Wait()
}

// parts are what the recompressed image is made of.
func (c *Claim) parts() image.Parts {
	c.spool.mu.Lock()
	defer c.spool.mu.Unlock()
	own := source{packed: map[digest.Digest]*layer{}}
	blobs := make([]ocispec.Descriptor, len(c.img.Layers()))
	for i, l := range c.img.Layers() {
		blobs[i] = l.Descriptor
		if _, ok := c.wants[identify(l)]; ok {
			packed := c.spool.layers[identify(l)]
			blobs[i] = packed.descriptor
			own.packed[packed.descriptor.Digest] = packed
		}
	}
	c.img.Via(func(s image.Source) image.Source { own.rest = s; return s })
	return image.Parts{
		Reference: c.img.Reference(), Platform: c.img.Platform(),
		Root: c.img.Root().Data, Manifest: c.img.Manifest().Data, Config: c.img.Config().Data,
		Layers: blobs, Source: own,
	}
}

// Close says that no layer of the image will be read any more. Further calls do nothing.
func (c *Claim) Close() error {
	err := c.spool.release(c.wants)
	c.wants = nil
	return err
}

// readImage reads layers from the image itself.
func readImage(img image.Image) Read {
	return func(ctx context.Context, i int, use func(io.Reader) error) error {
		rc, err := img.Layer(ctx, i)
		if err != nil {
			return err
		}
		defer rc.Close()
		return use(rc)
	}
}
