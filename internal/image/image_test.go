package image_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
)

func TestImageIsWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Reference: "redis:7"})
	require.NoError(t, img.Is(reference.MustParse("docker.io/library/redis:7"), platform.Platform{OS: "linux", Architecture: "x86_64"}))
	err := img.Is(reference.MustParse("redis:8"), img.Platform())
	require.ErrorIs(t, err, image.ErrVerify)
	require.ErrorContains(t, err, "the entry holds redis:7, not redis:8")
	err = img.Is(img.Reference(), platform.Platform{OS: "linux", Architecture: "arm64"})
	require.ErrorIs(t, err, image.ErrVerify)
	require.ErrorContains(t, err, "for linux/amd64, not linux/arm64")
}

func TestSizeIsThatOfAllMentions(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Layers: 2, Repeat: true, Index: true})
	want := int64(len(img.Root().Data) + len(img.Manifest().Data) + len(img.Config().Data))
	for _, l := range img.Layers() {
		want += l.Descriptor.Size
	}
	require.Equal(t, want, img.Size())
	require.Len(t, img.Layers(), 3)

	plain := imagetest.New(t, imagetest.Options{Layers: -1})
	require.Equal(t, int64(len(plain.Root().Data)+len(plain.Config().Data)), plain.Size())
}

func TestObserversSeeEveryByte(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Layers: 2, LayerSize: 300_000})
	var first, second atomic.Int64
	observed := img.Observe(func(n int) { first.Add(int64(n)) }).Observe(func(n int) { second.Add(int64(n)) })
	require.NoError(t, image.Verify(t.Context(), observed))
	want := img.Layers()[0].Descriptor.Size + img.Layers()[1].Descriptor.Size
	require.Equal(t, want, first.Load())
	require.Equal(t, want, second.Load())

	require.NoError(t, image.Verify(t.Context(), img))
	require.Equal(t, want, first.Load(), "the image that was observed from is left alone")
}

func TestVerifyReadsTheLayers(t *testing.T) {
	t.Parallel()
	p := imagetest.Parts(t, imagetest.Options{Layers: 3})
	img, err := image.New(p)
	require.NoError(t, err)
	require.NoError(t, image.Verify(t.Context(), img))

	last := img.Layers()[2].Descriptor.Digest
	p.Source.(imagetest.Blobs)[last][5] ^= 1
	err = image.Verify(t.Context(), img)
	require.ErrorIs(t, err, image.ErrVerify)
	require.ErrorIs(t, err, image.ErrRead)
	delete(p.Source.(imagetest.Blobs), last)
	require.ErrorContains(t, image.Verify(t.Context(), img), "opening layer "+last.Encoded()[:12])
	require.ErrorIs(t, image.Verify(t.Context(), img), image.ErrRead)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, image.Verify(ctx, img), context.Canceled)
}

var errBroken = errors.New("broken")
