package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/store"
)

// find fetches the entry of key, whichever generation it is. None is store.ErrNotFound, and what is no entry
// store.ErrCorrupt.
func (s *Store) find(ctx context.Context, key string) (envelope, error) {
	ref, err := s.tagged(key)
	if err != nil {
		return envelope{}, err
	}
	data, err := s.client.Manifest(ctx, ref)
	switch {
	case err == nil:
		return unseal(key, data)
	case status(err) == http.StatusNotFound:
		return envelope{}, fmt.Errorf("%w: %w", store.ErrNotFound, err)
	default:
		return envelope{}, corrupt(err)
	}
}

func (s *Store) open(ctx context.Context, key string) (image.Image, error) {
	found, err := s.find(ctx, key)
	if err != nil {
		return image.Image{}, err
	}
	img, err := s.image(ctx, found)
	if err != nil {
		return image.Image{}, err
	}
	release := s.client.Hold(img)
	context.AfterFunc(ctx, func() { _ = release() }) // what stays in the spool goes with it
	return img, nil
}

// image is the entry's image, verified down to its config.
func (s *Store) image(ctx context.Context, e envelope) (image.Image, error) {
	parts, err := e.parts()
	if err != nil {
		return image.Image{}, err
	}
	if parts.Source, err = s.blobs(e.Key); err != nil {
		return image.Image{}, err
	}
	if parts.Config == nil {
		if parts.Config, err = readConfig(ctx, parts); err != nil {
			return image.Image{}, err
		}
	}
	img, err := image.New(parts)
	return img, corrupt(err)
}

// readConfig reads the config from its blob.
func readConfig(ctx context.Context, p image.Parts) ([]byte, error) {
	var m ocispec.Manifest
	if err := json.Unmarshal(p.Manifest, &m); err != nil {
		return nil, fmt.Errorf("%w: reading the manifest: %w", store.ErrCorrupt, err)
	}
	if m.Config.Digest.Validate() != nil || m.Config.Size < 0 || m.Config.Size > image.MaxDocument {
		return nil, fmt.Errorf("%w: the manifest's config is %q with %d bytes", store.ErrCorrupt, m.Config.Digest, m.Config.Size)
	}
	rc, err := p.Source.Blob(ctx, m.Config)
	if err != nil {
		return nil, fmt.Errorf("reading the config: %w", err)
	}
	defer rc.Close()
	data, err := io.ReadAll(io.LimitReader(rc, m.Config.Size+1))
	if err != nil {
		return nil, fmt.Errorf("reading the config: %w", err)
	}
	return data, nil
}

// blobs are the repository's blobs as key's entry needs them: each entry has a schedule of its own.
func (s *Store) blobs(key string) (image.Source, error) {
	ref, err := s.tagged(key)
	if err != nil {
		return nil, err
	}
	return source{s.client.Blobs(ref)}, nil
}

// source gives blobs. One that the registry has lost, cut or changed is store.ErrCorrupt.
type source struct{ image.Source }

// Blob implements image.Source.
func (s source) Blob(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	rc, err := s.Source.Blob(ctx, d)
	if err != nil {
		return nil, corrupt(err)
	}
	return blob{rc}, nil
}

type blob struct{ io.ReadCloser }

// Read implements io.Reader.
func (b blob) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = corrupt(err)
	}
	return n, err
}

// corrupt marks the errors that say that what is there is not what it must be: wrong bytes, and in place of a blob,
// nothing or too little.
func corrupt(err error) error {
	gone := status(err) == http.StatusNotFound || status(err) == http.StatusRequestedRangeNotSatisfiable
	if err != nil && (gone || errors.Is(err, image.ErrVerify)) {
		return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return err
}

// status is that of the registry's answer which an error is about; 0 is none.
func status(err error) int {
	fault, ok := errors.AsType[*registry.Fault](err)
	if !ok {
		return 0
	}
	return fault.Status
}
