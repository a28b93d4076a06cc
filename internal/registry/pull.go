package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/retry"
)

// defaultTimeout is that of retry.Policy's zero value.
const defaultTimeout = 10 * time.Minute

// Pull is an image that comes from a registry: its documents are here, its layers are fetched when they are read.
type Pull struct {
	// Image is the image. Its layers can be read until the Pull or the Client is closed.
	Image image.Image
	// Authenticated says that stored credentials were sent, because the registry asked for some. It does not say that
	// the image is private: see Client.Public.
	Authenticated bool
	// RateLimit is what Docker Hub said of its limit; zero elsewhere.
	RateLimit RateLimit

	fetch  *fetch
	closed atomic.Bool
}

// Attempts is how many attempts the image has taken: one, if all went well. It grows while layers are read.
func (p *Pull) Attempts() int {
	if p.fetch == nil {
		return 1
	}
	return p.fetch.budget.attempts()
}

// fetch is the work of one pull: where it goes, and what it may spend. Safe for concurrent use.
type fetch struct {
	client *Client
	ref    reference.Reference
	route  *route
	budget *budget
}

func (c *Client) newFetch(ref reference.Reference) *fetch {
	total := cmp.Or(c.options.Policy.Timeout, defaultTimeout)
	return &fetch{client: c, ref: ref, route: c.newRoute(ref), budget: &budget{total: total}}
}

// policy is the schedule, with its waits told.
func (f *fetch) policy() retry.Policy {
	p := f.client.options.Policy
	tell := p.OnWait
	p.OnWait = func(attempt int, wait time.Duration, err error) {
		f.client.notify(Event{Kind: Wait, Image: f.ref.Familiar(), Wait: wait, Attempt: attempt, Text: err.Error()})
		if tell != nil {
			tell(attempt, wait, err)
		}
	}
	return p
}

// Pull fetches the documents of the image that ref names for a platform, as often as it takes, and verifies them. The
// layers follow when they are read: each resumes where it broke off, on what is left of the same schedule.
//
// What ref names may be an artifact in place of an image: see image.Image.Artifact.
//
// An error is of class retry.Permanent when another call could not help: no such image, not for this platform, no
// manifest at all.
func (c *Client) Pull(ctx context.Context, ref reference.Reference, p platform.Platform) (*Pull, error) {
	f := c.newFetch(ref)
	p = platform.Normalize(p)
	root, err := f.document(ctx, rootName(ref), ref.Digest())
	if err != nil {
		return nil, f.wrap(err)
	}
	manifest, err := f.manifest(ctx, root, p)
	if err != nil {
		return nil, f.wrap(err)
	}
	config, err := f.config(ctx, manifest, p, image.IsIndex(root.mediaType))
	if err != nil {
		return nil, f.wrap(err)
	}
	img, err := image.New(image.Parts{Reference: ref, Platform: p, Root: root.data, Manifest: manifest.data, Config: config, Source: f})
	if err != nil {
		return nil, f.wrap(err)
	}
	if c.spool != nil {
		c.spool.hold(layersOf(img))
	}
	return &Pull{Image: img, Authenticated: f.route.wasAuthenticated(), RateLimit: f.route.origin.host.lastLimit(), fetch: f}, nil
}

// rootName is what the root is asked for by: the digest, which is sure, before the tag, which moves.
func rootName(ref reference.Reference) string {
	if d := ref.Digest(); d != "" {
		return d.String()
	}
	return ref.Tag()
}

// pullError is an error that says which image it is about.
type pullError struct {
	image string
	err   error
}

func (e *pullError) Error() string { return "pulling " + e.image + ": " + e.err.Error() }
func (e *pullError) Unwrap() error { return e.err }

// wrap says which image an error is about, once.
func (f *fetch) wrap(err error) error {
	if _, ok := errors.AsType[*pullError](err); ok {
		return err
	}
	return &pullError{f.ref.Familiar(), err}
}

// retry makes attempts at one request until use is content.
func (f *fetch) retry(ctx context.Context, req request, use func(place, *http.Response) error) error {
	req.patience = f.budget
	var wrong mismatches
	return f.budget.run(ctx, f.policy(), func(ctx context.Context) error {
		return wrong.judge(f.route.try(ctx, req, use))
	})
}

// document fetches a root or a manifest by tag or digest; want is its digest, where that is known.
func (f *fetch) document(ctx context.Context, name string, want digest.Digest) (document, error) {
	var doc document
	req := request{method: http.MethodGet, path: "manifests/" + name, accept: manifestTypes}
	err := f.retry(ctx, req, func(_ place, resp *http.Response) (err error) {
		doc, err = readManifest(resp, want)
		return err
	})
	return doc, err
}

// manifest finds the manifest for the platform: the root itself, or what it lists.
func (f *fetch) manifest(ctx context.Context, root document, p platform.Platform) (document, error) {
	if !image.IsIndex(root.mediaType) {
		return root, nil
	}
	var index ocispec.Index
	if err := json.Unmarshal(root.data, &index); err != nil {
		return document{}, permanently("reading the index: %s", clean(err.Error()))
	}
	if n := len(index.Manifests); n > maxEntries {
		return document{}, permanently("reading the index: it has %d entries, and %d are the most", n, maxEntries)
	}
	entry, ok := choose(index.Manifests, p)
	if !ok {
		return document{}, permanently("no image for %s: the index has %s", p, offered(index.Manifests))
	}
	if err := entry.Digest.Validate(); err != nil {
		return document{}, permanently("reading the index: digest %q: %s", clean(entry.Digest.String()), err)
	}
	return f.document(ctx, entry.Digest.String(), entry.Digest)
}

// config fetches the config and holds that of an image to the platform. listed says that an index lists the manifest.
func (f *fetch) config(ctx context.Context, manifest document, p platform.Platform, listed bool) ([]byte, error) {
	d, err := configOf(manifest, listed)
	if err != nil {
		return nil, err
	}
	var data []byte
	err = f.retry(ctx, request{method: http.MethodGet, path: "blobs/" + d.Digest.String()}, func(_ place, resp *http.Response) (err error) {
		data, err = readBlob(resp, d)
		return err
	})
	if err != nil || !image.IsConfig(d.MediaType) {
		return data, err
	}
	var config ocispec.Image
	if err := json.Unmarshal(data, &config); err != nil {
		return nil, permanently("reading the config: %s", clean(err.Error()))
	}
	have := platform.Normalize(platform.Platform{OS: config.OS, Architecture: config.Architecture, Variant: config.Variant})
	if _, ok := runs(p, have); !ok {
		return nil, permanently("no image for %s: there is one for %s", p, clean(have.String()))
	}
	return data, nil
}

// readBlob reads a small blob whole. Bytes beyond its size are not looked at.
func readBlob(resp *http.Response, d ocispec.Descriptor) ([]byte, error) {
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, d.Size))
	if err != nil {
		return nil, err
	}
	_, err = checkDigest(data, d.Digest, "")
	return data, err
}

// Digest asks for the digest of the root that ref names, without its bytes. A registry that does not say it with the
// header is asked for the bytes after all.
func (c *Client) Digest(ctx context.Context, ref reference.Reference) (digest.Digest, error) {
	f := c.newFetch(ref)
	f.route.mirrors = nil // a mirror that lags would tell of yesterday
	var d digest.Digest
	req := request{method: http.MethodHead, path: "manifests/" + rootName(ref), accept: manifestTypes}
	err := f.retry(ctx, req, func(_ place, resp *http.Response) error {
		d = digest.Digest(resp.Header.Get("Docker-Content-Digest"))
		return resp.Body.Close()
	})
	if err != nil {
		return "", f.wrap(err)
	}
	if d.Validate() == nil {
		return d, nil
	}
	root, err := f.document(ctx, rootName(ref), ref.Digest())
	if err != nil {
		return "", f.wrap(err)
	}
	return digest.FromBytes(root.data), nil
}
