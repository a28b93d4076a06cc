package demo

import (
	"context"
	"fmt"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/target"
)

// images are what the matrix needs: three that share a base, as official images of one distribution do.
var images = []struct {
	name   string
	layers []int64 // sizes in bytes, above the base
}{
	{"library/postgres:17", []int64{700_000, 30_000}},
	{"library/redis:7", []int64{300_000}},
	{"gitea/gitea:1.24", []int64{900_000, 50_000, 10_000}},
}

// baseSize is the size of the layer that all images share, in bytes.
const baseSize = 500_000

// publish puts the images into the registry, each behind an index, and pins each by tag and digest.
func publish(reg *regtest.Registry, host string) ([]pin.Pin, error) {
	own := platform.Host()
	config := regtest.Config{Platform: ocispec.Platform{OS: own.OS, Architecture: own.Architecture, Variant: own.Variant}}
	base := regtest.RandomLayer(1, baseSize)
	pins := make([]pin.Pin, len(images))
	for i, wanted := range images {
		layers := []regtest.Layer{base}
		for j, size := range wanted.layers {
			layers = append(layers, regtest.RandomLayer(uint64(100*i+j+2), size))
		}
		digest := reg.Add(wanted.name, regtest.NewIndex(regtest.NewImage(config, layers...)))
		ref, err := reference.Parse(host + "/" + wanted.name + "@" + digest.String())
		if err != nil {
			return nil, fmt.Errorf("pinning %s: %w", wanted.name, err)
		}
		pins[i] = pin.Pin{Reference: ref, Name: wanted.name}
	}
	return pins, nil
}

// sink is a target for a machine without a daemon: it takes an image to the last byte, as a load does, and keeps nothing.
type sink struct{}

var _ target.Target = sink{}

// Platform implements target.Target.
func (sink) Platform(context.Context) (platform.Platform, error) { return platform.Host(), nil }

// Load implements target.Target. The proof is the image's own: an archive that was written to its end was verified.
func (sink) Load(ctx context.Context, img image.Image) (target.Result, error) {
	if err := image.Encode(ctx, io.Discard, img); err != nil {
		return target.Result{}, err
	}
	return target.Result{Outcome: target.Loaded, Sent: img.Size()}, nil
}
