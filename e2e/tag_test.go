//go:build linux

package e2e

import (
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/report"
)

// versions are two images that stand under one tag, one after the other.
type versions struct {
	registry *registry
	ref      string // by tag
	old, new v1.Image
}

// startVersions serves the old version under the tag.
func startVersions(t *testing.T) versions {
	t.Helper()
	v := versions{registry: startRegistry(t, filepath.Join(tempDir(t), "storage")), old: tiny(t, "old"), new: tiny(t, "new")}
	v.ref = v.registry.addr + "/e2e/moving:1"
	v.publish(t, v.old)
	return v
}

// publish moves the tag to image.
func (v versions) publish(t *testing.T, image v1.Image) {
	t.Helper()
	require.NoError(t, v.registry.push(t.Context(), "e2e/moving:1", image))
}

// tiny is an image with busybox and one file, /etc/version, that holds the word.
func tiny(t *testing.T, word string) v1.Image {
	t.Helper()
	dir := tempDir(t)
	base, err := busyboxLayer(filepath.Join(dir, "base"))
	require.NoError(t, err)
	own, err := writeLayer(filepath.Join(dir, "own"), text("etc/version", word))
	require.NoError(t, err)
	image, err := assemble(ociTypes, host, base, own)
	require.NoError(t, err)
	return image
}

func digestOf(t *testing.T, image v1.Image) string {
	t.Helper()
	digest, err := image.Digest()
	require.NoError(t, err)
	return digest.String()
}

// The tag has moved upstream; the pin says by digest what it means, and that is what a lane gets.
func TestTagMovedUnderDigestPin(t *testing.T) {
	forEachEngine(t, func(t *testing.T, d *daemon) {
		v := startVersions(t)
		v.publish(t, v.new)
		pinned := v.ref + "@" + digestOf(t, v.old)
		p, list := pullonce(t, d), pins(t, newStore(t), pinned)
		require.Equal(t, 0, p.run(t, with([]string{"prime"}, list...)...).code)

		loaded := p.run(t, with([]string{"load"}, list...)...)
		require.Equal(t, 0, loaded.code)
		require.Equal(t, []report.Source{report.Cache}, loaded.sources())
		require.Equal(t, "old", d.run(t, v.ref, busybox, "cat", "/etc/version"))
		if d.containerdStore {
			require.Empty(t, loaded.report.Problems)
			require.Equal(t, "old", d.run(t, pinned, busybox, "cat", "/etc/version"))
			return
		}
		require.Len(t, loaded.report.Problems, 1, "a classic store can't answer to the digest, and that is said once")
		require.Equal(t, report.Warning, loaded.report.Problems[0].Severity)
		require.Contains(t, loaded.report.Problems[0].Message, digestOf(t, v.old))
	})
}

// The daemon holds another image under the pinned tag, from an earlier job. It is replaced, and a notice says what it
// was.
func TestStaleImageReplaced(t *testing.T) {
	forEachEngine(t, func(t *testing.T, d *daemon) {
		v := startVersions(t)
		d.docker(t, "pull", "--quiet", v.ref)
		stale := d.id(t, v.ref)
		v.publish(t, v.new)
		p, list := pullonce(t, d), pins(t, newStore(t), v.ref)
		require.Equal(t, 0, p.run(t, with([]string{"prime"}, list...)...).code)

		loaded := p.run(t, with([]string{"load"}, list...)...)
		require.Equal(t, 0, loaded.code)
		require.Equal(t, "new", d.run(t, v.ref, busybox, "cat", "/etc/version"))
		require.Len(t, loaded.report.Problems, 1)
		notice := loaded.report.Problems[0]
		require.Equal(t, report.Notice, notice.Severity)
		require.Contains(t, notice.Message, stale)
		require.Equal(t, report.Success, loaded.report.Result)
	})
}
