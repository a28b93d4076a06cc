package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/platform"
)

// New verifies the chain reference → root → manifest → config and makes an Image. Any break in it is ErrVerify.
func New(p Parts) (Image, error) {
	if p.Reference.IsZero() || p.Source == nil {
		return Image{}, errors.New("image: a reference and a source are needed")
	}
	img := Image{ref: p.Reference, platform: platform.Normalize(p.Platform), source: p.Source}
	for _, stage := range []func(Parts) error{img.verifyRoot, img.verifyManifest, img.verifyConfig, img.makeCarrier, img.makeHead} {
		if err := stage(p); err != nil {
			return Image{}, fmt.Errorf("%w of %s: %w", ErrVerify, p.Reference.Familiar(), err)
		}
	}
	return img, nil
}

// verifyRoot holds the root to the digest of the reference, where it has one.
func (img *Image) verifyRoot(p Parts) error {
	root, err := newDocument("root", p.Root)
	if err != nil {
		return err
	}
	if want := p.Reference.Digest(); want != "" && root.Digest != want {
		return fmt.Errorf("root is %s, the reference says %s", root.Digest, want)
	}
	img.root = root
	return nil
}

// verifyManifest holds the manifest to the root: it is the root, or the root lists it for this platform.
func (img *Image) verifyManifest(p Parts) error {
	manifest, err := newDocument("manifest", p.Manifest)
	if err != nil {
		return err
	}
	if !IsManifest(manifest.MediaType) {
		return fmt.Errorf("manifest has media type %q, which is no image manifest", manifest.MediaType)
	}
	img.manifest = manifest
	if manifest.Digest == img.root.Digest {
		return nil
	}
	if !IsIndex(img.root.MediaType) {
		return fmt.Errorf("root %s is no index and not the manifest %s", img.root.Digest, manifest.Digest)
	}
	listings, err := img.listings()
	if err == nil && len(listings) == 0 {
		err = fmt.Errorf("root %s does not list manifest %s", img.root.Digest, manifest.Digest)
	}
	return err
}

// listings are the descriptors by which the root lists the manifest: one digest may stand for several platforms.
func (img *Image) listings() ([]ocispec.Descriptor, error) {
	var index ocispec.Index
	if err := json.Unmarshal(img.root.Data, &index); err != nil {
		return nil, fmt.Errorf("root: %w", err)
	}
	want := img.manifest.Descriptor()
	return slices.DeleteFunc(index.Manifests, func(d ocispec.Descriptor) bool {
		return d.Digest != want.Digest || d.Size != want.Size
	}), nil
}

// verifyPlatform holds the platform to what the root says of the manifest, or to the config where the root says
// nothing. The root goes first because clients choose by it, and configs of the wrong architecture are in use.
func (img *Image) verifyPlatform(config ocispec.Platform) error {
	listings, err := img.listings()
	if err != nil {
		return err
	}
	have := []ocispec.Platform{}
	for _, d := range listings {
		if d.Platform != nil {
			have = append(have, *d.Platform)
		}
	}
	if len(have) == 0 {
		have = append(have, config)
	}
	if !slices.ContainsFunc(have, func(p ocispec.Platform) bool { return suits(p, img.platform) }) {
		return fmt.Errorf("manifest %s is for %s, %s was asked for", img.manifest.Digest, normalize(have[0]), img.platform)
	}
	return nil
}

// suits says whether an image for listed runs on want. An older variant than the wanted one suits as well (arm/v6 on
// arm/v7), and where either side says nothing of a variant, any does.
func suits(listed ocispec.Platform, want platform.Platform) bool {
	have := normalize(listed)
	return have.OS == want.OS && have.Architecture == want.Architecture &&
		(listed.Variant == "" || want.Variant == "" || have.Variant <= want.Variant)
}

func normalize(p ocispec.Platform) platform.Platform {
	return platform.Normalize(platform.Platform{OS: p.OS, Architecture: p.Architecture, Variant: p.Variant})
}

// verifyConfig holds the config to the manifest, the platform to the config, and takes the layers from both.
func (img *Image) verifyConfig(p Parts) error {
	var manifest ocispec.Manifest
	if err := json.Unmarshal(img.manifest.Data, &manifest); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	if len(p.Config) > MaxDocument {
		return fmt.Errorf("config has %d bytes, at most %d are allowed", len(p.Config), MaxDocument)
	}
	img.config = Document{MediaType: manifest.Config.MediaType, Digest: digest.FromBytes(p.Config), Data: p.Config}
	if want := manifest.Config; img.config.Digest != want.Digest || int64(len(p.Config)) != want.Size {
		return fmt.Errorf("config is %s (%d bytes), the manifest says %s (%d bytes)", img.config.Digest, len(p.Config), want.Digest, want.Size)
	}
	if img.Artifact() {
		return errors.Join(img.takeArtifact(manifest.Layers), img.replaceLayers(p.Layers))
	}
	var config ocispec.Image
	if err := json.Unmarshal(p.Config, &config); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if err := img.verifyPlatform(config.Platform); err != nil {
		return err
	}
	if err := img.takeLayers(manifest.Layers, config.RootFS.DiffIDs); err != nil {
		return err
	}
	return img.replaceLayers(p.Layers)
}

// takeArtifact takes the layers of an artifact, whose config says nothing of them and of no platform. What an index lists
// is chosen by platform, so an artifact is no part of one.
func (img *Image) takeArtifact(descriptors []ocispec.Descriptor) error {
	if img.manifest.Digest != img.root.Digest {
		return fmt.Errorf("manifest %s is listed by an index: %w", img.manifest.Digest, img.Loadable())
	}
	return img.takeLayers(descriptors, make([]digest.Digest, len(descriptors)))
}

func (img *Image) takeLayers(descriptors []ocispec.Descriptor, diffIDs []digest.Digest) error {
	if len(descriptors) != len(diffIDs) {
		return fmt.Errorf("manifest has %d layers, config has %d diff ids", len(descriptors), len(diffIDs))
	}
	if len(descriptors) > MaxLayers {
		return fmt.Errorf("%d layers, at most %d are allowed", len(descriptors), MaxLayers)
	}
	img.layers = make([]Layer, len(descriptors))
	for i, d := range descriptors {
		img.layers[i] = Layer{Descriptor: d, DiffID: diffIDs[i]}
	}
	return img.checkLayers()
}

// checkLayers bounds the layers. None may have the bytes of a document, because it would share its name; no manifest can
// list itself, so that only the config and what stands in for a layer must be looked at.
func (img *Image) checkLayers() error {
	sizes := make(map[digest.Digest]int64, len(img.layers)+3)
	for _, doc := range []Document{img.root, img.manifest, img.config} {
		sizes[doc.Digest] = -1
	}
	for i, l := range img.layers {
		d := l.Descriptor
		if err := img.checkLayer(d, l.DiffID); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
		if size, seen := sizes[d.Digest]; seen && size != d.Size {
			return fmt.Errorf("layer %d: %s is mentioned before as something else", i, d.Digest)
		}
		sizes[d.Digest] = d.Size
	}
	return nil
}

func (img *Image) checkLayer(d ocispec.Descriptor, diffID digest.Digest) error {
	if d.Size < 0 || d.Size > MaxLayer {
		return fmt.Errorf("size %d is out of bounds", d.Size)
	}
	if err := checkDigest(d.Digest); err != nil || img.Artifact() {
		return err
	}
	return checkDigest(diffID)
}

// checkDigest holds a digest to the one algorithm that the archive names its members by.
func checkDigest(d digest.Digest) error {
	if err := d.Validate(); err != nil {
		return fmt.Errorf("digest %q: %w", d, err)
	}
	if d.Algorithm() != digest.SHA256 {
		return fmt.Errorf("digest %q: only sha256 is supported", d)
	}
	return nil
}

// newDocument bounds data, reads its media type and takes its digest.
func newDocument(what string, data []byte) (Document, error) {
	if len(data) > MaxDocument {
		return Document{}, fmt.Errorf("%s has %d bytes, at most %d are allowed", what, len(data), MaxDocument)
	}
	mediaType, err := MediaType(data)
	if err != nil {
		return Document{}, fmt.Errorf("%s: %w", what, err)
	}
	return Document{MediaType: mediaType, Digest: digest.FromBytes(data), Data: data}, nil
}
