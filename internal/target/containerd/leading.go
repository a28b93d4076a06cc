package containerd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pullonce/pullonce/internal/image"
)

// Leading implements Stager. What is there is unpacked from there, if it is not yet.
func (c *Ctr) Leading(ctx context.Context, img image.Image) (int, error) {
	args := []string{"content", "ls", "--quiet"}
	for _, l := range img.Layers() {
		args = append(args, fmt.Sprintf("digest==%s", l.Descriptor.Digest))
	}
	out, err := c.question(ctx, args...)
	if err != nil {
		return 0, err
	}
	there := strings.Fields(out)
	for i, l := range img.Layers() {
		if !slices.Contains(there, l.Descriptor.Digest.String()) {
			return i, nil
		}
	}
	return len(img.Layers()), nil
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
	out, err := c.question(ctx, append([]string{"images", "ls", "--quiet"}, filters...)...)
	return strings.Fields(out), err
}
