package docker_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/docker"
	"github.com/pullonce/pullonce/internal/target/loopback"
)

// The end-to-end tests load into daemons that are there already, which .ci/run starts. Which of them are there follows
// from the suite's own variables: see package e2e.
const (
	envGate       = "PULLONCE_E2E"
	envEngine     = "PULLONCE_E2E_BIN" // set where there is a current engine, and so a containerd store
	envClassic    = "PULLONCE_E2E_DOCKER_CLASSIC"
	envContainerd = "PULLONCE_E2E_DOCKER_CONTAINERD"
)

// real is a real daemon, seen by the target and by a client beside it.
type real struct {
	*docker.Docker
	api        *client.Client
	platform   platform.Platform
	containerd bool
	way        docker.Way
}

// forEachDaemon runs test on the daemon of each store that must be there, once for each way into it. Whatever test runs at
// the same time has other images.
func forEachDaemon(t *testing.T, test func(t *testing.T, d real)) {
	t.Helper()
	if os.Getenv(envGate) != "1" {
		t.Skip("needs Docker daemons: run it with .ci/run, or PULLONCE_E2E=1 PULLONCE_E2E_DOCKER_CLASSIC=unix:///… go test")
	}
	variables := []string{envClassic}
	if os.Getenv(envEngine) != "" {
		variables = append(variables, envContainerd)
	}
	for _, variable := range variables {
		for name, way := range map[string]docker.Way{"pull": docker.Pull, "archive": docker.Archive} {
			t.Run(variable+"/"+name, func(t *testing.T) {
				d := newReal(t, variable, way)
				test(t, d)
			})
		}
	}
}

func newReal(t *testing.T, variable string, way docker.Way) real {
	host := os.Getenv(variable)
	require.NotEmpty(t, host, "%s is not set: it must be the address of a daemon", variable)
	d := real{containerd: variable == envContainerd, way: way}
	var err error
	d.Docker, err = docker.New(docker.Options{Host: host, Way: way})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	d.api, err = client.New(client.WithHost(host))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.api.Close()) })
	d.platform, err = d.Platform(t.Context())
	require.NoError(t, err)
	return d
}

// image makes an image for the daemon that is like no other test's, and removes it when the test ends.
func (d real) image(t *testing.T, o imagetest.Options) image.Image {
	t.Helper()
	o.Platform = d.platform
	img := imagetest.New(t, o)
	d.forget(t, img)
	t.Cleanup(func() {
		d.hasNoTemporaryName(t, img)
		d.forget(t, img)
	})
	return img
}

// hasNoTemporaryName holds img to the names that users know.
func (d real) hasNoTemporaryName(t *testing.T, img image.Image) {
	t.Helper()
	list, err := d.api.ImageList(context.WithoutCancel(t.Context()), client.ImageListOptions{All: true})
	require.NoError(t, err)
	for _, item := range list.Items {
		if item.ID != d.id(img) && item.ID != img.Manifest().Digest.String() && item.ID != img.Carrier().Digest.String() {
			continue
		}
		require.Equal(t, d.id(img), item.ID)
		for _, name := range slices.Concat(item.RepoTags, item.RepoDigests) {
			require.NotContains(t, name, "127.0.0.1")
		}
	}
}

func (d real) id(img image.Image) string {
	if d.containerd {
		return img.Root().Digest.String()
	}
	return img.Config().Digest.String()
}

// forget removes img whatever its names are.
func (d real) forget(t *testing.T, img image.Image) {
	t.Helper()
	_, err := d.api.ImageRemove(context.WithoutCancel(t.Context()), d.id(img), client.ImageRemoveOptions{Force: true, PruneChildren: true})
	if !cerrdefs.IsNotFound(err) {
		require.NoError(t, err)
	}
}

// answer is the id behind ref, or "".
func (d real) answer(t *testing.T, ref string) string {
	t.Helper()
	got, err := d.api.ImageInspect(t.Context(), ref)
	if cerrdefs.IsNotFound(err) {
		return ""
	}
	require.NoError(t, err)
	return got.ID
}

// create makes a container of ref, which pulls nothing and unpacks nothing that is not there, and removes it again.
func (d real) create(t *testing.T, ref string) error {
	t.Helper()
	made, err := d.api.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config: &container.Config{Image: ref}, HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	if err != nil {
		return err
	}
	_, err = d.api.ContainerRemove(t.Context(), made.ID, client.ContainerRemoveOptions{})
	return err
}

func TestE2EOutcomes(t *testing.T) {
	t.Parallel()
	forEachDaemon(t, func(t *testing.T, d real) {
		img := d.image(t, imagetest.Options{Reference: "outcomes:1", Index: true, Layers: 3, Seed: 100})
		renamed := d.image(t, imagetest.Options{Reference: "outcomes:2", Index: true, Layers: 3, Seed: 100})
		next := d.image(t, imagetest.Options{Reference: "outcomes:1", Index: true, Layers: 4, Seed: 100})

		for _, step := range []struct {
			img      image.Image
			outcome  target.Outcome
			replaced string
		}{
			{img, target.Loaded, ""},
			{img, target.Present, ""},
			{renamed, target.Tagged, ""},
			{next, target.Loaded, d.id(img)},
			{next, target.Present, ""},
			{img, target.Tagged, d.id(next)},
		} {
			result, err := d.Load(t.Context(), step.img)
			require.NoError(t, err)
			require.Equal(t, step.outcome, result.Outcome)
			require.Equal(t, step.replaced, result.Replaced)
			require.Equal(t, step.outcome == target.Loaded, result.Sent > 0)
			ref := step.img.Reference().Tagged()
			require.Equal(t, d.id(step.img), d.answer(t, ref))
			require.NoError(t, d.create(t, ref))
		}
	})
}

// TestE2EReferences tries each kind of reference, the ones that a store can't answer to as well.
func TestE2EReferences(t *testing.T) {
	t.Parallel()
	forEachDaemon(t, func(t *testing.T, d real) {
		for seed, o := range map[uint64]imagetest.Options{
			200: {Reference: "refs-tag:1", Index: true},
			201: {Reference: "refs-both:1", Index: true, Digest: true},
			202: {Reference: "refs-digest", Index: true, ByDigest: true},
			203: {Reference: "refs-plain:1", Digest: true},
		} {
			o.Seed = seed
			img := d.image(t, o)
			ref := img.Reference()
			result, err := d.Load(t.Context(), img)
			require.NoError(t, err, o.Reference)
			require.Equal(t, target.Loaded, result.Outcome, o.Reference)
			require.NoError(t, d.create(t, d.id(img)), o.Reference)
			if ref.Tag() != "" {
				require.NoError(t, d.create(t, ref.Tagged()), o.Reference)
			}
			if ref.Digest() == "" {
				require.Empty(t, result.Unresolvable)
				continue
			}
			err = d.create(t, ref.String())
			if d.containerd {
				require.NoError(t, err, ref)
				require.Empty(t, result.Unresolvable)
			} else {
				require.True(t, cerrdefs.IsNotFound(err), "%s: %v", ref, err)
				require.Equal(t, []string{ref.String()}, result.Unresolvable)
			}
		}
	})
}

func TestE2EHundredLayersSharedByTwo(t *testing.T) {
	t.Parallel()
	forEachDaemon(t, func(t *testing.T, d real) {
		var loads errgroup.Group
		images := []image.Image{
			d.image(t, imagetest.Options{Reference: "hundred:1", Layers: 100, Seed: 300}),
			d.image(t, imagetest.Options{Reference: "hundred:2", Layers: 30, Seed: 300}),
		}
		for _, img := range images {
			loads.Go(func() error {
				_, err := d.Load(t.Context(), img)
				return err
			})
		}
		require.NoError(t, loads.Wait())
		for _, img := range images {
			require.NoError(t, d.create(t, img.Reference().Tagged()))
		}
	})
}

func TestE2ECommonLayersAreNotSent(t *testing.T) {
	t.Parallel()
	forEachDaemon(t, func(t *testing.T, d real) {
		const size = 100_000
		elsewhere := d.image(t, imagetest.Options{Reference: "elsewhere", ByDigest: true, Layers: 6, LayerSize: size, Seed: 500})
		base := d.image(t, imagetest.Options{Reference: "common:1", Layers: 4, LayerSize: size, Seed: 500})
		_, err := d.Load(t.Context(), base)
		require.NoError(t, err)
		img := d.image(t, imagetest.Options{Reference: "common:2", Layers: 6, LayerSize: size, Seed: 500})
		result, err := d.Load(t.Context(), img)
		require.NoError(t, err)
		require.Equal(t, target.Loaded, result.Outcome)
		require.Less(t, result.Sent, int64(3*size))
		d.forget(t, base)
		require.NoError(t, d.create(t, "common:2"))

		result, err = d.Load(t.Context(), elsewhere)
		require.NoError(t, err)
		require.Less(t, result.Sent, int64(size), "its name may be new, its layers are not")
	})
}

// TestE2EBrokenLoadLeavesNothing breaks ten images at some place each, and has one end well at last. They have no layer in
// common, because a daemon may keep those that it got.
func TestE2EBrokenLoadLeavesNothing(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	forEachDaemon(t, func(t *testing.T, d real) {
		random := rand.New(rand.NewPCG(seed, 0))
		before := d.image(t, imagetest.Options{Reference: "broken:1", Seed: 400})
		_, err := d.Load(t.Context(), before)
		require.NoError(t, err)
		options := imagetest.Options{
			Reference: "broken:1", Index: true, Layers: 3, LayerSize: 50_000, Platform: d.platform, Seed: random.Uint64N(1 << 20),
		}
		whole := d.image(t, options)
		for range 10 {
			options.Seed += 3
			img := imagetest.New(t, options)
			broken := img.Layers()[random.IntN(3)].Descriptor.Digest
			img = img.Via(func(s image.Source) image.Source { return breaking(s, broken, random.Int64N(50_000)) })
			_, err = d.Load(t.Context(), img)
			require.ErrorIs(t, err, errBreak)
			require.Equal(t, d.id(before), d.answer(t, "broken:1"))
			require.Empty(t, d.answer(t, d.id(img)))
		}
		result, err := d.Load(t.Context(), whole)
		require.NoError(t, err)
		require.Equal(t, d.id(before), result.Replaced)
		require.NoError(t, d.create(t, "broken:1"))
	})
}

var errBreak = errors.New("it broke")

// breaking gives all blobs but one, which breaks at its byte at.
func breaking(good image.Source, broken digest.Digest, at int64) image.Source {
	return imagetest.Source(func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
		rc, err := good.Blob(ctx, d)
		if err != nil || d.Digest != broken {
			return rc, err
		}
		return struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(rc, at), iotest.ErrReader(errBreak)), rc}, nil
	})
}

// TestE2EWrongBytesAreForgotten has a daemon get the beginning of a layer wrong, and then pull the image for itself. A
// containerd store goes on where a pull broke off.
func TestE2EWrongBytesAreForgotten(t *testing.T) {
	t.Parallel()
	forEachDaemon(t, func(t *testing.T, d real) {
		img := d.image(t, imagetest.Options{Reference: "wrong:1", Layers: 2, LayerSize: 8 << 20, Seed: rand.Uint64()})
		_, err := d.Load(t.Context(), img.Via(func(s image.Source) image.Source {
			return imagetest.Source(func(ctx context.Context, blob ocispec.Descriptor) (io.ReadCloser, error) {
				rc, err := s.Blob(ctx, blob)
				return struct {
					io.Reader
					io.Closer
				}{io.MultiReader(strings.NewReader("wrong bytes"), rc), rc}, err
			})
		}))
		require.ErrorIs(t, err, image.ErrVerify)

		registry, err := loopback.Serve(t.Context(), img, loopback.Options{})
		require.NoError(t, err)
		defer registry.Close()
		pull, err := d.api.ImagePull(t.Context(), registry.Reference(), client.ImagePullOptions{})
		require.NoError(t, err)
		require.NoError(t, pull.Wait(t.Context()))
		require.NoError(t, d.create(t, registry.Reference()))
		_, err = d.api.ImageRemove(t.Context(), registry.Reference(), client.ImageRemoveOptions{})
		require.NoError(t, err)
	})
}

// TestE2ERecompressed keeps nothing of a recompressed image but what runs, under its own digests.
func TestE2ERecompressed(t *testing.T) {
	t.Parallel()
	forEachDaemon(t, func(t *testing.T, d real) {
		options := imagetest.Options{
			Reference: "recompressed:1", Index: true, Digest: true, Layers: 3, LayerSize: 50_000, Platform: d.platform, Seed: 700,
		}
		exact := imagetest.New(t, options)
		options.Recompressed = true
		img := d.image(t, options)
		options.Reference = "recompressed:2"
		renamed := imagetest.New(t, options)
		version, err := d.api.ServerVersion(t.Context(), client.ServerVersionOptions{})
		require.NoError(t, err)
		result, err := d.Load(t.Context(), img)
		if versions.LessThan(version.APIVersion, "1.42") {
			require.ErrorIs(t, err, target.ErrRecompressed)
			return
		}
		require.NoError(t, err)
		require.Equal(t, target.Loaded, result.Outcome)
		refs := []string{img.Reference().Tagged(), d.id(img)}
		if d.containerd {
			refs = append(refs, img.Reference().String(), img.Reference().WithDigest(img.Root().Digest))
		}
		for _, ref := range refs {
			require.Equal(t, d.id(img), d.answer(t, ref))
			require.NoError(t, d.create(t, ref))
		}
		require.Empty(t, d.answer(t, img.Carrier().Digest.String()))
		result, err = d.Load(t.Context(), img)
		require.NoError(t, err)
		require.Equal(t, target.Present, result.Outcome)
		result, err = d.Load(t.Context(), renamed)
		require.NoError(t, err)
		require.Equal(t, target.Tagged, result.Outcome)
		result, err = d.Load(t.Context(), exact)
		require.NoError(t, err)
		if d.containerd {
			require.Equal(t, target.Loaded, result.Outcome, "its own layers are not there yet")
		}
		require.NoError(t, d.create(t, exact.Reference().Tagged()))
	})
}
