package registry

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/image"
)

// Docker's media types, from its image manifest v2 schema 2 specification.
const (
	dockerList    = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerSchema  = "application/vnd.docker.distribution.manifest.v2+json"
	dockerSchema1 = "application/vnd.docker.distribution.manifest.v1+"
)

// manifestTypes is what is asked for where a manifest or an index is wanted.
const manifestTypes = ocispec.MediaTypeImageIndex + ", " + dockerList + ", " + ocispec.MediaTypeImageManifest + ", " + dockerSchema

// document is a root or a manifest as a registry served it.
type document struct {
	mediaType string
	data      []byte
}

// readManifest reads the answer to a request for a manifest and holds it to want, where the digest is known. What a
// registry in trouble, a proxy or a cut connection makes of a manifest may pass; another kind of document does not.
func readManifest(resp *http.Response, want digest.Digest) (document, error) {
	defer resp.Body.Close()
	data, err := readAll(resp.Body, image.MaxDocument)
	if err != nil {
		return document{}, err
	}
	said, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case strings.HasPrefix(said, dockerSchema1):
		return document{}, permanently("unsupported manifest: schema version 1 (media type %s)", clean(said))
	case isPage(resp.Header):
		return document{}, transiently("a web page came where a manifest belongs")
	}
	verified, err := checkDigest(data, want, resp.Header.Get("Docker-Content-Digest"))
	if err != nil {
		return document{}, err
	}
	mediaType, err := image.MediaType(data)
	if err != nil && isGarbled(err) {
		return document{}, transiently("what came is no manifest: %s", clean(err.Error()))
	}
	if err != nil {
		return document{}, permanently("%s", clean(err.Error()))
	}
	// Some proxies label what they serve as they like; where the digest is right, the bytes speak for themselves.
	if known := image.IsIndex(said) || image.IsManifest(said); known && said != mediaType && !verified {
		return document{}, transiently("a document of media type %s came as %s", clean(mediaType), said)
	}
	return document{mediaType, data}, nil
}

// checkDigest holds data to the digest that was asked for, else to the one that the registry itself gave; with neither it
// can't.
func checkDigest(data []byte, want digest.Digest, said string) (verified bool, err error) {
	if want == "" {
		want = digest.Digest(said)
	}
	if want == "" || want.Validate() != nil {
		return false, nil
	}
	if got := want.Algorithm().FromBytes(data); got != want {
		return false, mismatched(got, want)
	}
	return true, nil
}

// readAll reads at most limit bytes.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, permanently("a document of more than %d bytes came", limit)
	}
	return data, nil
}

// configOf finds the config of an image manifest. What is stored like an image and is none, as charts, policies and
// signatures are, is refused where an index lists it: nothing there says which is meant.
func configOf(manifest document, listed bool) (ocispec.Descriptor, error) {
	if !image.IsManifest(manifest.mediaType) {
		return ocispec.Descriptor{}, permanently("unsupported manifest: media type %q", clean(manifest.mediaType))
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(manifest.data, &m); err != nil {
		return ocispec.Descriptor{}, permanently("reading the manifest: %s", clean(err.Error()))
	}
	d := m.Config
	switch {
	case d.MediaType == "", listed && !image.IsConfig(d.MediaType):
		return d, permanently("not a container image (config media type %q)", clean(d.MediaType))
	case d.Digest.Validate() != nil:
		return d, permanently("reading the manifest: config digest %q is none", clean(d.Digest.String()))
	case d.Size < 0 || d.Size > image.MaxDocument:
		return d, permanently("the config has %d bytes, at most %d are allowed", d.Size, image.MaxDocument)
	}
	return d, nil
}
