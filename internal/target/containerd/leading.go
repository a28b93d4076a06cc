package containerd

import (
	"context"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
)

// Blobs implements Stager.
func (c *Ctr) Blobs(ctx context.Context, digests []digest.Digest) ([]digest.Digest, error) {
	args := []string{"content", "ls", "--quiet"}
	for _, sum := range digests {
		args = append(args, fmt.Sprintf("digest==%s", sum))
	}
	out, err := c.question(ctx, args...)
	if err != nil {
		return nil, err
	}
	var there []digest.Digest
	for _, sum := range strings.Fields(out) {
		there = append(there, digest.Digest(sum))
	}
	return there, nil
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
