package containerd_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/command/commandtest"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/containerd"
)

// namespace is what loads into a daemon, without the search for a client.
func (d *daemon) namespace() *containerd.Namespace {
	return &containerd.Namespace{Client: &containerd.Ctr{
		Runner: d.runner, Argv: []string{"ctr", "--address", d.socket, "--namespace", "k8s.io"},
	}}
}

// looked is how often somebody asked for images since the last time.
func (d *daemon) looked() (n int) {
	for _, call := range d.runner.Calls() {
		if strings.Contains(call, " images check ") {
			n++
		}
	}
	return n
}

func TestExpectedImagesAreAskedAboutInOneQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon(t, true)
		n := d.namespace()
		var images []image.Image
		for i, ref := range []string{"one:1", "two:2", "three:3"} {
			img := imagetest.New(t, imagetest.Options{Reference: ref, Index: true, Seed: uint64(i)})
			images = append(images, img)
			d.hold(img, img.Reference().Tagged(), img.Reference().WithDigest(img.Root().Digest), img.Reference().WithDigest(img.Manifest().Digest))
		}
		n.Expect(t.Context(), images)
		require.Equal(t, 1, d.looked())
		for _, img := range images {
			result, err := n.Load(t.Context(), img)
			require.NoError(t, err)
			require.Equal(t, target.Present, result.Outcome)
		}
		require.Zero(t, d.looked())

		_, err := n.Load(t.Context(), images[0])
		require.NoError(t, err)
		require.Equal(t, 1, d.looked(), "an answer is good for one load")

		n.Expect(t.Context(), images)
		time.Sleep(5 * time.Second)
		_, err = n.Load(t.Context(), images[0])
		require.NoError(t, err)
		require.Equal(t, 2, d.looked(), "and not for long")
	})
}

func TestExpectedImageIsLoadedAndProven(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, true)
	n, img, old := d.namespace(), newImage(t), oldImage(t)
	d.label("new", img)
	d.label("old", old)
	d.hold(old, tag)
	n.Expect(t.Context(), []image.Image{img, old})
	result, err := n.Load(t.Context(), img)
	require.NoError(t, err)
	require.Equal(t, target.Loaded, result.Outcome)
	require.Equal(t, old.Root().Digest.String(), result.Replaced)
	require.Equal(t, "new.root", d.state()[tag])
}

// What was whole when it was asked about, and is gone when it gets its names, is sent.
func TestExpectedImageThatWent(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, true)
	n, img := d.namespace(), newImage(t)
	d.label("new", img)
	d.hold(img, elsewhere)
	n.Expect(t.Context(), []image.Image{img})
	d.on("ctr", "images tag --force", func(args []string, stdin []byte) (command.Output, error) {
		delete(d.names, elsewhere)
		d.on("ctr", "images tag --force", d.tag)
		return d.tag(args, stdin)
	})
	result, err := n.Load(t.Context(), img)
	require.NoError(t, err)
	require.Equal(t, target.Loaded, result.Outcome)
	require.Equal(t, "new.root", d.state()[tag])
}

func TestExpectThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, true)
	n, img := d.namespace(), newImage(t)
	d.on("ctr", "images check", commandtest.Fails(1, "ctr: busy\n"))
	n.Expect(t.Context(), []image.Image{img})
	d.on("ctr", "images check", d.check)
	result, err := n.Load(t.Context(), img)
	require.NoError(t, err)
	require.Equal(t, target.Loaded, result.Outcome)
}
