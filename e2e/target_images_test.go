//go:build linux

package e2e

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
)

// loadable is img under a reference, as a store would hand it to a target. root is the index in front of it, or img.
func loadable(t *testing.T, ref string, img v1.Image, root interface{ RawManifest() ([]byte, error) }) image.Image {
	t.Helper()
	var err error
	parts := image.Parts{Platform: platform.Platform{OS: host.OS, Architecture: host.Architecture}, Source: layersOf{img}}
	parts.Root, err = root.RawManifest()
	require.NoError(t, err)
	parts.Manifest, err = img.RawManifest()
	require.NoError(t, err)
	parts.Config, err = img.RawConfigFile()
	require.NoError(t, err)
	parts.Reference, err = reference.Parse(ref)
	require.NoError(t, err)
	made, err := image.New(parts)
	require.NoError(t, err)
	return made
}

// layersOf is an image's layers as a source.
type layersOf struct{ img v1.Image }

// Blob implements image.Source.
func (l layersOf) Blob(_ context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	layer, err := l.img.LayerByDigest(v1.Hash{Algorithm: "sha256", Hex: d.Digest.Encoded()})
	if err != nil {
		return nil, err
	}
	return layer.Compressed()
}

// indexed is an image with busybox and the word in /etc/version, behind an index with another platform and an
// attestation.
func indexed(t *testing.T, ref, word string) image.Image {
	t.Helper()
	img := tiny(t, word)
	index, err := behindIndex(img, tiny(t, "other"))
	require.NoError(t, err)
	return loadable(t, ref, img, index)
}

// plain is one without an index, in Docker's media types.
func plain(t *testing.T, ref, word string) image.Image {
	t.Helper()
	img := layered(t, dockerTypes, base(t), word)
	return loadable(t, ref, img, img)
}

// layered is busybox, the word, and as many more layers as there are more words.
func layered(t *testing.T, family mediaTypes, base layerFile, words ...string) v1.Image {
	t.Helper()
	dir := tempDir(t)
	files := []layerFile{base}
	for i, word := range words {
		name := "etc/version"
		if i > 0 {
			name = fmt.Sprintf("etc/layers/%d", i)
		}
		layer, err := writeLayer(filepath.Join(dir, fmt.Sprint(i)), text(name, word))
		require.NoError(t, err)
		files = append(files, layer)
	}
	img, err := assemble(family, host, files...)
	require.NoError(t, err)
	return img
}

// base is the layer with busybox.
func base(t *testing.T) layerFile {
	t.Helper()
	layer, err := busyboxLayer(filepath.Join(tempDir(t), "base"))
	require.NoError(t, err)
	return layer
}

// hundredLayers is an image of so many.
func hundredLayers(t *testing.T, ref string) image.Image {
	t.Helper()
	words := make([]string, 99)
	for i := range words {
		words[i] = fmt.Sprintf("layer %d", i)
	}
	img := layered(t, ociTypes, base(t), words...)
	return loadable(t, ref, img, img)
}

// zstdLayers is an image whose layers are packed with zstd.
func zstdLayers(t *testing.T, ref string) image.Image {
	t.Helper()
	gzipped := layered(t, ociTypes, base(t), "zstd")
	layers, err := gzipped.Layers()
	require.NoError(t, err)
	config, err := gzipped.ConfigFile()
	require.NoError(t, err)
	config.RootFS.DiffIDs, config.History = nil, nil
	img, err := assemble(ociTypes, host)
	require.NoError(t, err)
	img, err = mutate.ConfigFile(img, config)
	require.NoError(t, err)
	for i, layer := range layers {
		img, err = mutate.AppendLayers(img, repack(t, filepath.Join(tempDir(t), fmt.Sprint(i)), layer))
		require.NoError(t, err)
	}
	return loadable(t, ref, img, img)
}

// repack is a layer with the same content, packed with zstd.
func repack(t *testing.T, name string, layer v1.Layer) v1.Layer {
	t.Helper()
	unpacked, err := layer.Uncompressed()
	require.NoError(t, err)
	defer unpacked.Close()
	f, err := os.Create(name)
	require.NoError(t, err)
	packer, err := zstd.NewWriter(f)
	require.NoError(t, err)
	_, err = io.Copy(packer, unpacked)
	require.NoError(t, err)
	require.NoError(t, packer.Close())
	require.NoError(t, f.Close())
	packed := layerFile{name: name, mediaType: types.OCILayerZStd}
	f, err = os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	packed.digest, packed.size, err = v1.SHA256(f)
	require.NoError(t, err)
	packed.diffID, err = layer.DiffID()
	require.NoError(t, err)
	again, err := packed.as(types.OCILayerZStd)
	require.NoError(t, err)
	return again
}
