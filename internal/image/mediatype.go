package image

import (
	"encoding/json"
	"errors"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Docker's media types, from its image manifest v2 schema 2 specification.
const (
	mediaTypeDockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
	mediaTypeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	mediaTypeDockerConfig   = "application/vnd.docker.container.image.v1+json"
)

// MediaType reads the media type of a manifest or index from its own body. The OCI image-spec leaves the field
// optional, so a document without it is told by its shape. A document of both shapes is refused: clients would differ
// over what it is (CVE-2021-41190).
func MediaType(data []byte) (string, error) {
	var doc struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     string          `json:"mediaType"`
		Manifests     json.RawMessage `json:"manifests"`
		Config        json.RawMessage `json:"config"`
		Layers        json.RawMessage `json:"layers"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return "", fmt.Errorf("no JSON document: %w", err)
	}
	index, manifest := doc.Manifests != nil, doc.Config != nil || doc.Layers != nil
	switch {
	case doc.SchemaVersion != 2:
		return "", fmt.Errorf("unsupported manifest: schema version %d", doc.SchemaVersion)
	case index == manifest:
		return "", errors.New("unsupported manifest: neither an image manifest nor an index")
	case doc.MediaType == "" && index:
		return ocispec.MediaTypeImageIndex, nil
	case doc.MediaType == "":
		return ocispec.MediaTypeImageManifest, nil
	case IsIndex(doc.MediaType) != index:
		return "", fmt.Errorf("media type %q does not match the document", doc.MediaType)
	}
	return doc.MediaType, nil
}

// IsIndex says whether mediaType is an OCI index or a Docker manifest list.
func IsIndex(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageIndex || mediaType == mediaTypeDockerList
}

// IsConfig says whether mediaType is that of an OCI or Docker image config. A manifest with another config is an OCI
// artifact, which is stored like an image and is none (image-spec, "Guidelines for Artifact Usage").
func IsConfig(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageConfig || mediaType == mediaTypeDockerConfig
}

// IsManifest says whether mediaType is an OCI or Docker image manifest.
func IsManifest(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageManifest || mediaType == mediaTypeDockerManifest
}
