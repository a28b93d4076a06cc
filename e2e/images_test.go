//go:build linux

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// fixture is one image in the storage folder of the suite's registries.
type fixture struct {
	repoTag                string // as in "e2e/small:1"
	root, manifest, config v1.Hash
	layers                 int
}

// fixtures are the three images of the suite and the storage folder that registries serve them from.
type fixtures struct {
	storage              string
	small, medium, large fixture
}

func (f fixtures) all() []fixture { return []fixture{f.small, f.medium, f.large} }

// images makes the fixtures, once: small has 3 layers in Docker's media types, medium 6 layers behind an OCI index
// with another platform and an attestation, large 10 layers and more than 1 GiB of files. Small and medium share their
// first two layers.
var images = sync.OnceValues(func() (fixtures, error) {
	dir := filepath.Join(os.Getenv(envWorkDir), "fixtures")
	f := fixtures{storage: filepath.Join(dir, "storage")}
	layers, err := writeLayers(filepath.Join(dir, "layers"))
	if err != nil {
		return fixtures{}, err
	}
	r, err := launchRegistry(dir, f.storage)
	if err != nil {
		return fixtures{}, err
	}
	err = f.push(r, layers)
	return f, errors.Join(err, r.stop(), os.RemoveAll(filepath.Join(dir, "layers")))
})

// sizes of the files of the layers after the first, in bytes: two for small, of which medium shares one and adds four
// of its own; then nine for large.
var layerSizes = map[string][]int64{
	"small":  {300 << 10, 500 << 10},
	"medium": {4 << 20, 8 << 20, 2 << 20, 6 << 20},
	"large":  {64 << 20, 256 << 20, 16 << 20, 192 << 20, 128 << 20, 96 << 20, 160 << 20, 32 << 20, 112 << 20},
}

// writeLayers makes all layers, two at a time. The first, "base", holds busybox.
func writeLayers(dir string) (map[string][]layerFile, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	base := make([]layerFile, 1)
	layers := map[string][]layerFile{"base": base}
	var group errgroup.Group
	group.SetLimit(2)
	group.Go(func() (err error) {
		base[0], err = busyboxLayer(filepath.Join(dir, "base"))
		return err
	})
	seed := uint64(0)
	for _, image := range []string{"small", "medium", "large"} {
		made := make([]layerFile, len(layerSizes[image]))
		layers[image] = made
		for i, size := range layerSizes[image] {
			seed++
			data, base := newMixed(seed), fmt.Sprintf("%s-%d", image, i+1)
			group.Go(func() (err error) {
				made[i], err = writeLayer(filepath.Join(dir, base),
					text("etc/layers/"+base, base), file{name: "opt/" + base, mode: 0o644, size: size, data: data})
				return err
			})
		}
	}
	return layers, group.Wait()
}

// busyboxLayer holds /bin/busybox.
func busyboxLayer(name string) (layerFile, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return layerFile{}, fmt.Errorf("reading busybox, which .ci/run installs: %w", err)
	}
	return writeLayer(name, file{name: "bin/busybox", mode: 0o755, size: int64(len(program)), data: bytes.NewReader(program)})
}

// text is a small file.
func text(name, content string) file {
	return file{name: name, mode: 0o644, size: int64(len(content)), data: strings.NewReader(content)}
}

// push assembles the three images and publishes them.
func (f *fixtures) push(r *registry, layers map[string][]layerFile) error {
	base, shared := layers["base"][0], layers["small"][0]
	small, err := assemble(dockerTypes, host, append([]layerFile{base}, layers["small"]...)...)
	if err != nil {
		return err
	}
	medium, err := assemble(ociTypes, host, append([]layerFile{base, shared}, layers["medium"]...)...)
	if err != nil {
		return err
	}
	large, err := assemble(ociTypes, host, append([]layerFile{base}, layers["large"]...)...)
	if err != nil {
		return err
	}
	other, err := assemble(ociTypes, foreign, layers["medium"][0])
	if err != nil {
		return err
	}
	index, err := behindIndex(medium, other)
	if err != nil {
		return err
	}
	for _, p := range []struct {
		into    *fixture
		repoTag string
		image   v1.Image
		root    publishable
	}{
		{&f.small, "e2e/small:1", small, small},
		{&f.medium, "e2e/medium:2", medium, index},
		{&f.large, "e2e/large:3", large, large},
	} {
		if err := r.push(context.Background(), p.repoTag, p.root); err != nil {
			return err
		}
		if *p.into, err = describe(p.repoTag, p.image, p.root); err != nil {
			return err
		}
	}
	return nil
}

// publishable is an image or an index.
type publishable interface {
	remote.Taggable
	Digest() (v1.Hash, error)
}

func describe(repoTag string, image v1.Image, root publishable) (f fixture, err error) {
	f.repoTag = repoTag
	if f.root, err = root.Digest(); err != nil {
		return f, err
	}
	if f.manifest, err = image.Digest(); err != nil {
		return f, err
	}
	if f.config, err = image.ConfigName(); err != nil {
		return f, err
	}
	layers, err := image.Layers()
	f.layers = len(layers)
	return f, err
}

// The platform that containers run on here, and one that they don't.
var (
	host    = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	foreign = v1.Platform{OS: "linux", Architecture: "s390x"}
)

// mediaTypes is one of the two families that registries serve.
type mediaTypes struct{ manifest, config, layer types.MediaType }

var (
	dockerTypes = mediaTypes{types.DockerManifestSchema2, types.DockerConfigJSON, types.DockerLayer}
	ociTypes    = mediaTypes{types.OCIManifestSchema1, types.OCIConfigJSON, types.OCILayer}
)

// assemble makes the image of some layers. Its default command succeeds.
func assemble(family mediaTypes, p v1.Platform, files ...layerFile) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, family.manifest), family.config)
	image, err := mutate.ConfigFile(image, &v1.ConfigFile{
		OS: p.OS, Architecture: p.Architecture, Created: v1.Time{Time: epoch},
		Config: v1.Config{Cmd: []string{busybox, "true"}, Env: []string{"PATH=/bin"}},
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		layer, err := f.as(family.layer)
		if err != nil {
			return nil, err
		}
		history := v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "pullonce e2e " + filepath.Base(f.name)}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: history}); err != nil {
			return nil, err
		}
	}
	return image, nil
}

// behindIndex is an index as BuildKit writes it: an image for the host, one for another platform, and the attestation
// of the first, which is a manifest of platform unknown/unknown.
func behindIndex(image, other v1.Image) (v1.ImageIndex, error) {
	subject, err := image.Digest()
	if err != nil {
		return nil, err
	}
	statement := static.NewLayer([]byte(`{"_type":"https://in-toto.io/Statement/v0.1"}`), "application/vnd.in-toto+json")
	attestation, err := mutate.AppendLayers(
		mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), statement)
	if err != nil {
		return nil, err
	}
	unknown := v1.Platform{OS: "unknown", Architecture: "unknown"}
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
		mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Platform: &foreign}},
		mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &host}},
		mutate.IndexAddendum{Add: attestation, Descriptor: v1.Descriptor{Platform: &unknown, Annotations: map[string]string{
			"vnd.docker.reference.type":   "attestation-manifest",
			"vnd.docker.reference.digest": subject.String(),
		}}},
	), nil
}

// needImages is the fixtures, for a test that can't do without.
func needImages(t *testing.T) fixtures {
	t.Helper()
	f, err := images()
	require.NoError(t, err)
	return f
}
