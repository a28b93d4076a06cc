package sample

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"
)

// Image is an image that a registry has.
type Image struct {
	// Repository and Tag are its name, below the registry's address.
	Repository string `json:"repository"`
	Tag        string `json:"tag"`
	// Manifest and Config are its digests.
	Manifest string `json:"manifest"`
	Config   string `json:"config"`
	// Unpacked and Files are what it holds; Packed is the size of its gzipped layers.
	Unpacked int64 `json:"unpacked"`
	Files    int   `json:"files"`
	Packed   int64 `json:"packed"`
	Layers   int   `json:"layers"`
}

// Ref is the image's reference in a registry.
func (i Image) Ref(addr string) string { return addr + "/" + i.Repository + ":" + i.Tag }

// Check is a command that proves, in a container, that the image's layers are all there and hold what they should.
func (i Image) Check() []string {
	script := fmt.Sprintf("cd /%s && test $(busybox ls | busybox wc -l) = %d && busybox sha256sum -c -s *", sums, i.Layers)
	return []string{Busybox, "sh", "-c", "PATH=/bin; " + script}
}

// build makes an image, its layers in files of dir.
func build(ctx context.Context, machine fs.FS, files []file, s Spec, dir string) (v1.Image, Image, error) {
	layers := s.layers()
	about := Image{Repository: "bench/" + s.Name, Tag: "1", Layers: len(layers)}
	made := make([]*written, len(layers))
	counts := make([]Image, len(layers))
	group, _ := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for i, l := range layers {
		group.Go(func() error {
			chosen, err := choose(files, l)
			if err != nil {
				return err
			}
			for _, f := range chosen {
				counts[i].Unpacked += f.size
			}
			counts[i].Files = len(chosen)
			made[i], err = writeLayer(machine, chosen, l, i == 0, dir)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, Image{}, err
	}
	for i, l := range made {
		about.Unpacked, about.Files, about.Packed = about.Unpacked+counts[i].Unpacked, about.Files+counts[i].Files, about.Packed+l.size
	}
	img, err := assemble(made)
	return img, about, err
}

// assemble makes an image of layers.
func assemble(layers []*written) (v1.Image, error) {
	img := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	for _, l := range layers {
		var err error
		if img, err = mutate.Append(img, mutate.Addendum{Layer: l, MediaType: types.OCILayer}); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", runtime.GOARCH, v1.Time{Time: stamp().UTC()}
	config.Config.Env, config.Config.Cmd = []string{"PATH=/bin"}, []string{Busybox, "true"}
	for i := range config.History {
		config.History[i] = v1.History{Created: v1.Time{Time: stamp().UTC().Add(time.Second * time.Duration(i))}, CreatedBy: "pullonce bench"}
	}
	return mutate.ConfigFile(img, config)
}

// push gives an image to a registry.
func push(ctx context.Context, img v1.Image, about Image, addr string) (Image, error) {
	ref, err := name.ParseReference(about.Ref(addr))
	if err != nil {
		return Image{}, err
	}
	if err := remote.Write(ref, img, remote.WithContext(ctx)); err != nil {
		return Image{}, fmt.Errorf("pushing %s: %w", ref, err)
	}
	manifest, err := img.Digest()
	if err != nil {
		return Image{}, err
	}
	config, err := img.ConfigName()
	about.Manifest, about.Config = manifest.String(), config.String()
	return about, err
}

// Make builds the images of specs from the machine's files, and gives them to the registry at addr. Layers are in a
// temporary folder of dir until then.
func Make(ctx context.Context, machine fs.FS, specs []Spec, dir, addr string) ([]Image, error) {
	files, err := pool(machine)
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp(dir, "layers-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	images := make([]Image, len(specs))
	for i, s := range specs {
		img, about, err := build(ctx, machine, files, s, temp)
		if err != nil {
			return nil, fmt.Errorf("building %s: %w", s.Name, err)
		}
		if images[i], err = push(ctx, img, about, addr); err != nil {
			return nil, err
		}
	}
	return images, nil
}
