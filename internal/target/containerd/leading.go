package containerd

import (
	"context"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
)

// Leading implements Stager: a layer is there if its blob is and the snapshot of all layers up to it.
func (c *Ctr) Leading(ctx context.Context, img image.Image) (int, error) {
	d, err := c.dialect(ctx)
	if err != nil {
		return 0, err
	}
	var blobs, snapshots map[string]bool
	asking, ctx := errgroup.WithContext(ctx)
	asking.Go(func() (err error) {
		args := []string{"content", "ls", "--quiet"}
		for _, l := range img.Layers() {
			args = append(args, fmt.Sprintf("digest==%s", l.Descriptor.Digest))
		}
		blobs, err = c.firstColumn(ctx, args...)
		return err
	})
	asking.Go(func() (err error) {
		snapshots, err = c.firstColumn(ctx, append(append([]string{"snapshots"}, d.snapshotter...), "ls")...)
		return err
	})
	if err := asking.Wait(); err != nil {
		return 0, err
	}
	return leading(img.Layers(), blobs, snapshots), nil
}

// leading is how many of the first layers have their blob among blobs and their chain among snapshots.
func leading(layers []image.Layer, blobs, snapshots map[string]bool) int {
	diffIDs := make([]digest.Digest, len(layers))
	for i, l := range layers {
		diffIDs[i] = l.DiffID
	}
	chain := identity.ChainIDs(diffIDs)
	for i, l := range layers {
		if !blobs[l.Descriptor.Digest.String()] || !snapshots[chain[i].String()] {
			return i
		}
	}
	return len(layers)
}

// Named implements Stager.
func (c *Ctr) Named(ctx context.Context, prefix string) ([]string, error) {
	return c.names(ctx, fmt.Sprintf("name~=%q", "^"+strings.ReplaceAll(prefix, ".", "[.]")))
}

// Names implements Stager.
func (c *Ctr) Names(ctx context.Context, digests []digest.Digest) ([]string, error) {
	var filters []string
	for _, sum := range digests {
		filters = append(filters, fmt.Sprintf("target.digest==%q", sum))
	}
	return c.names(ctx, filters...)
}

func (c *Ctr) names(ctx context.Context, filters ...string) ([]string, error) {
	out, err := c.run(ctx, nil, append([]string{"images", "ls", "--quiet"}, filters...)...)
	return strings.Fields(out), err
}

// firstColumn are the first words of the lines that a subcommand writes.
func (c *Ctr) firstColumn(ctx context.Context, args ...string) (map[string]bool, error) {
	out, err := c.run(ctx, nil, args...)
	words := map[string]bool{}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 0 {
			words[f[0]] = true
		}
	}
	return words, err
}
