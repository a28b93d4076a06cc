package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/store"
)

// push is one image on its way into the repository.
type push struct {
	*Store
	img    image.Image
	key    string
	number int // the generation
	pusher *remote.Pusher
	// suspicious says that the blobs that are there already are read before they are believed.
	suspicious bool
}

// save takes an image through the stages: is it there, else send its blobs, its own manifest, and the entry's.
func (s *Store) save(ctx context.Context, key string, img image.Image) error {
	p := &push{Store: s, img: img, pusher: s.pusher}
	p.key, p.number = store.ParseGeneration(key)
	there, found, err := p.there(ctx)
	if there || err != nil {
		return err
	}
	if err := p.suspect(found); err != nil {
		return err
	}
	for _, stage := range []func(context.Context) error{p.sendConfig, p.sendLayers, p.putManifest, p.putEntry} {
		if err := stage(ctx); err != nil {
			return refused(err)
		}
	}
	return nil
}

// there says whether the generation, or a later one, is there already, and which entry is. One that can't be read is not.
func (p *push) there(ctx context.Context) (bool, envelope, error) {
	found, err := p.find(ctx, p.key)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
		return false, envelope{}, nil
	}
	return err == nil && found.Generation >= p.number, found, err
}

// suspect makes the blobs suspicious where the entry to replace is one of the same image: then it is replaced because it
// can't be read.
func (p *push) suspect(found envelope) error {
	manifest, err := found.unpack(manifestAnnotation)
	if err != nil || string(manifest) != string(p.img.Manifest().Data) {
		return nil //nolint:nilerr // what can't be unpacked says nothing of the blobs
	}
	p.suspicious = true
	p.pusher, err = remote.NewPusher(p.pushOptions()...) // the store's own remembers what it saw there
	return err
}

// sendConfig sends the config by itself: a registry that can't be written says so before a layer is read.
func (p *push) sendConfig(ctx context.Context) error {
	return p.send(ctx, p.img.Config().Descriptor(), func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(p.img.Config().Data)), nil
	})
}

// sendLayers sends the layers, some at a time.
func (p *push) sendLayers(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(p.concurrency)
	for i, l := range p.img.Layers() {
		group.Go(func() error {
			return p.send(ctx, l.Descriptor, func() (io.ReadCloser, error) { return p.img.Layer(ctx, i) })
		})
	}
	return group.Wait()
}

// send sends a blob that the repository does not have.
func (p *push) send(ctx context.Context, d ocispec.Descriptor, open func() (io.ReadCloser, error)) error {
	if p.suspicious {
		intact, err := p.intact(ctx, d)
		if intact || err != nil {
			return err
		}
	}
	var origin origin
	layer, err := p.layer(d, func() (io.ReadCloser, error) { return origin.watch(open()) })
	if err != nil {
		return err
	}
	err = p.do(ctx, func(ctx context.Context) error {
		return origin.blame(p.pusher.Upload(ctx, p.repository, layer))
	})
	if err != nil {
		return &sendError{blob: d, err: err}
	}
	return nil
}

// intact reads a blob that may be there. One that is there and wrong can't be sent anew: the registry holds on to what it
// takes for the same.
func (p *push) intact(ctx context.Context, d ocispec.Descriptor) (bool, error) {
	blobs, err := p.blobs(p.key)
	if err != nil {
		return false, err
	}
	rc, err := blobs.Blob(ctx, d)
	if status(err) == http.StatusNotFound {
		return false, nil
	}
	if err == nil {
		_, err = io.Copy(io.Discard, rc)
		err = errors.Join(err, rc.Close())
	}
	if errors.Is(err, store.ErrCorrupt) {
		return false, fmt.Errorf("the registry keeps a damaged copy of %s, which no push replaces: delete it there: %w", d.Digest, err)
	}
	return err == nil, err
}

// layer is a blob in go-containerregistry's terms. Where the image comes from the same registry it can be mounted.
func (p *push) layer(d ocispec.Descriptor, open func() (io.ReadCloser, error)) (v1.Layer, error) {
	hash, err := v1.NewHash(d.Digest.String())
	if err != nil {
		return nil, fmt.Errorf("reading a digest: %w", err)
	}
	layer, err := partial.CompressedToLayer(compressed{d, hash, open})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", d.Digest, err)
	}
	origin := p.img.Reference()
	if origin.Domain() != p.home.Domain() || origin.Path() == p.home.Path() {
		return layer, nil
	}
	return &remote.MountableLayer{Layer: layer, Reference: p.repository.Registry.Repo(origin.Path()).Digest(hash.String())}, nil
}

// putManifest puts the image's manifest under its own digest, where its layers are there. A registry that does not take its
// kind does not matter.
func (p *push) putManifest(ctx context.Context) error {
	if p.img.Recompressed() {
		return nil
	}
	m := p.img.Manifest()
	err := p.put(ctx, p.repository.Digest(m.Digest.String()), document{m.MediaType, m.Data})
	switch status(err) {
	case http.StatusBadRequest, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return nil
	}
	return err
}

// putEntry makes the entry visible. While the layers were sent, somebody else may have saved a later generation.
func (p *push) putEntry(ctx context.Context) error {
	there, _, err := p.there(ctx)
	if there || err != nil {
		return err
	}
	sealed, err := seal(record{Key: p.key, Generation: p.number, Saved: p.now().UTC().Truncate(time.Second)}, p.img)
	if err != nil {
		return err
	}
	err = p.put(ctx, p.repository.Tag(p.key), document{sealed.manifest.MediaType, sealed.data})
	if err == nil {
		return nil
	}
	// A repository whose tags are immutable refuses the second of two that save a key at once.
	if there, _, _ := p.there(ctx); there {
		return nil
	}
	if p.number > 0 {
		return fmt.Errorf("moving the tag to generation %d, which needs tags that may move: %w", p.number, err)
	}
	return err
}

// do makes calls of the pushing client on the schedule, in the name of the entry.
func (p *push) do(ctx context.Context, op func(context.Context) error) error {
	ref, err := p.tagged(p.key)
	if err != nil {
		return err
	}
	return p.client.Do(ctx, ref, op)
}

func (p *push) put(ctx context.Context, ref name.Reference, d document) error {
	return p.do(ctx, func(ctx context.Context) error { return p.pusher.Put(ctx, ref, d) })
}

// document is a manifest that is put as it is.
type document struct {
	mediaType string
	data      []byte
}

var _ remote.Taggable = document{}

// RawManifest implements remote.Taggable.
func (d document) RawManifest() ([]byte, error) { return d.data, nil }

// MediaType is what remote asks a Taggable for besides.
func (d document) MediaType() (types.MediaType, error) { return types.MediaType(d.mediaType), nil }

// compressed is a blob as it is.
type compressed struct {
	descriptor ocispec.Descriptor
	hash       v1.Hash
	open       func() (io.ReadCloser, error)
}

var _ partial.CompressedLayer = compressed{}

// Digest implements partial.CompressedLayer.
func (c compressed) Digest() (v1.Hash, error) { return c.hash, nil }

// Compressed implements partial.CompressedLayer.
func (c compressed) Compressed() (io.ReadCloser, error) { return c.open() }

// Size implements partial.CompressedLayer.
func (c compressed) Size() (int64, error) { return c.descriptor.Size, nil }

// MediaType implements partial.CompressedLayer.
func (c compressed) MediaType() (types.MediaType, error) {
	return types.MediaType(c.descriptor.MediaType), nil
}
