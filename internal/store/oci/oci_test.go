package oci

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/platform"
	pulls "github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/store"
)

func TestImagesComeBackAsTheyWereSaved(t *testing.T) {
	t.Parallel()
	for name, img := range map[string]image.Image{
		"a manifest":          imagetest.New(t, imagetest.Options{Layers: 3}),
		"an index":            imagetest.New(t, imagetest.Options{Layers: 3, Index: true}),
		"a digest":            imagetest.New(t, imagetest.Options{Index: true, Digest: true}),
		"a digest alone":      imagetest.New(t, imagetest.Options{Index: true, ByDigest: true}),
		"no layers":           imagetest.New(t, imagetest.Options{Layers: -1}),
		"recompressed":        imagetest.New(t, imagetest.Options{Layers: 3, Index: true, Recompressed: true, Repeat: true}),
		"a layer twice":       imagetest.New(t, imagetest.Options{Layers: 2, Repeat: true}),
		"another platform":    imagetest.New(t, imagetest.Options{Platform: platform.Platform{OS: "linux", Architecture: "arm", Variant: "v6"}}),
		"Docker's types":      remade(t, dockerTypes),
		"a config of 700 KiB": remade(t, largeConfig),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			saved := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
			s := newServer().open(t, func(o *Options) { o.Now = func() time.Time { return saved } })
			require.NoError(t, s.Save(t.Context(), key, img))

			entry, err := s.Stat(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, saved.Truncate(time.Second), entry.Saved)
			require.Greater(t, entry.Size, img.Size()-int64(len(img.Root().Data)+len(img.Manifest().Data)))
			entry.Size, entry.Saved = 0, time.Time{}
			require.Equal(t, store.Entry{Key: key}, entry)

			opened, err := s.Open(t.Context(), key)
			require.NoError(t, err)
			requireSame(t, img, opened)
		})
	}
}

// remade is an image whose documents were changed.
func remade(t *testing.T, change func(*ocispec.Image, *ocispec.Manifest)) image.Image {
	t.Helper()
	p := imagetest.Parts(t, imagetest.Options{Layers: 2})
	var config ocispec.Image
	var manifest ocispec.Manifest
	require.NoError(t, json.Unmarshal(p.Config, &config))
	require.NoError(t, json.Unmarshal(p.Manifest, &manifest))
	change(&config, &manifest)
	var err error
	p.Config, err = json.Marshal(config)
	require.NoError(t, err)
	manifest.Config.Digest, manifest.Config.Size = digest.FromBytes(p.Config), int64(len(p.Config))
	p.Manifest, err = json.Marshal(manifest)
	require.NoError(t, err)
	p.Root = p.Manifest
	img, err := image.New(p)
	require.NoError(t, err)
	return img
}

func dockerTypes(_ *ocispec.Image, m *ocispec.Manifest) {
	m.MediaType = "application/vnd.docker.distribution.manifest.v2+json"
	m.Config.MediaType = "application/vnd.docker.container.image.v1+json"
	for i := range m.Layers {
		m.Layers[i].MediaType = "application/vnd.docker.image.rootfs.diff.tar.gzip"
	}
	m.Layers[1].MediaType = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
}

func largeConfig(c *ocispec.Image, _ *ocispec.Manifest) {
	noise := make([]byte, 525<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	c.Config.Labels = map[string]string{"noise": base64.StdEncoding.EncodeToString(noise)}
}

// TestTheTagIsTheImage holds the entry to be one that other tools can pull: the image's own config and layers, in types
// that every registry knows.
func TestTheTagIsTheImage(t *testing.T) {
	t.Parallel()
	s := newServer().open(t)
	img := remade(t, dockerTypes)
	require.NoError(t, s.Save(t.Context(), key, img))
	found, err := s.find(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, ocispec.MediaTypeImageManifest, found.manifest.MediaType)
	require.Equal(t, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: img.Config().Digest, Size: int64(len(img.Config().Data))}, found.manifest.Config)
	for i, l := range img.Layers() {
		require.Equal(t, l.Descriptor.Digest, found.manifest.Layers[i].Digest)
		require.Equal(t, ocispec.MediaTypeImageLayerGzip, found.manifest.Layers[i].MediaType)
	}
	own, err := s.tagged(key + "@" + img.Manifest().Digest.String())
	require.NoError(t, err)
	data, err := s.client.Manifest(t.Context(), own)
	require.NoError(t, err)
	require.Equal(t, img.Manifest().Data, data, "the image's manifest is there under its own digest")
}

func TestLookingUpTakesOneRequest(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := server.open(t)
	_, err := s.Stat(t.Context(), key)
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = s.Open(t.Context(), key)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.NoError(t, s.Save(t.Context(), key, imagetest.New(t, imagetest.Options{Layers: 3, Index: true})))
	server.take()

	_, err = s.Stat(t.Context(), key)
	require.NoError(t, err)
	img, err := s.Open(t.Context(), key)
	require.NoError(t, err)
	requests, _ := server.take()
	require.Equal(t, []string{"GET manifests/" + key, "GET manifests/" + key}, requests)

	require.NoError(t, image.Verify(t.Context(), img))
	requests, _ = server.take()
	require.Len(t, requests, 3, "a request a layer: %s", requests)
	require.Equal(t, 3, count(requests, "GET blobs/sha256:"))
}

func TestOnlyWhatIsMissingIsSent(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := server.open(t)
	first := imagetest.New(t, imagetest.Options{Reference: "a:1", Layers: 3, LayerSize: 100_000})
	require.NoError(t, s.Save(t.Context(), key, first))
	requests, sent := server.take()
	require.Equal(t, 4, count(requests, "PATCH "), "config and three layers")
	require.Greater(t, sent, 300_000)

	again, read := watch(first)
	require.NoError(t, s.Save(t.Context(), key, again))
	requests, sent = server.take()
	require.Equal(t, []string{"GET manifests/" + key}, requests)
	require.Zero(t, sent)
	require.Empty(t, read.read)

	second, read := watch(imagetest.New(t, imagetest.Options{Reference: "b:1", Layers: 4, LayerSize: 100_000}))
	require.NoError(t, server.open(t).Save(t.Context(), "pullonce-v1-b-linux-amd64-0123456789abcdef", second))
	requests, sent = server.take()
	require.Equal(t, 2, count(requests, "PATCH "), "config and the layer that the first does not have")
	require.Less(t, sent, 110_000)
	require.Equal(t, []string{second.Layers()[3].Descriptor.Digest.String()}, read.read)
}

func TestTheTagIsPutLast(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := server.open(t)
	require.NoError(t, s.Save(t.Context(), key, imagetest.New(t, imagetest.Options{Layers: 3})))
	requests, _ := server.take()
	require.Equal(t, "PUT manifests/"+key, requests[len(requests)-1])
	require.Equal(t, 1, count(requests, "PUT manifests/pullonce"))
}

func TestAGenerationTakesTheTag(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := server.open(t)
	before := imagetest.New(t, imagetest.Options{Layers: 2})
	after := imagetest.New(t, imagetest.Options{Layers: 2, Seed: 1})
	require.NoError(t, s.Save(t.Context(), key, before))
	require.NoError(t, s.Save(t.Context(), store.Generation(key, 1), after))
	for _, late := range []string{key, store.Generation(key, 1)} { // what is there stays
		require.NoError(t, s.Save(t.Context(), late, before))
	}
	server.take()
	entry, err := s.Stat(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, 1, entry.Generation)
	img, err := s.Open(t.Context(), key)
	require.NoError(t, err)
	requests, _ := server.take()
	require.Len(t, requests, 2, "the newest generation is found at once")
	requireSame(t, after, img)

	require.NoError(t, s.Save(t.Context(), store.Generation(key, 40), before))
	entry, err = s.Stat(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, 40, entry.Generation)
	listed, err := s.List(t.Context())
	require.NoError(t, err)
	require.Len(t, listed, 1)
}

// TestAnImmutableTag is a repository that lets no tag move: the second of two that save at once finds that the first was
// faster, and a generation says what it needs.
func TestAnImmutableTag(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := server.open(t)
	img := imagetest.New(t, imagetest.Options{})
	tagged := false
	server.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, key) {
			return false
		}
		if !tagged { // somebody else is faster
			tagged = true
			server.set(nil)
			require.NoError(t, server.open(t).Save(r.Context(), key, img))
		}
		server.set(immutable)
		return immutable(w, r)
	})
	require.NoError(t, s.Save(t.Context(), key, img))
	err := s.Save(t.Context(), store.Generation(key, 1), imagetest.New(t, imagetest.Options{Seed: 9}))
	require.ErrorContains(t, err, "moving the tag to generation 1, which needs tags that may move")
	require.ErrorContains(t, err, "400 Bad Request: tag_invalid: the tag already exists")
}

func immutable(w http.ResponseWriter, r *http.Request) bool {
	return answer(http.StatusBadRequest, `{"errors":[{"code":"TAG_INVALID","message":"the tag already exists"}]}`,
		func(r *http.Request) bool { return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, key) })(w, r)
}

func TestManySaveOneKeyAtOnce(t *testing.T) {
	t.Parallel()
	server := newServer()
	one, other := server.open(t), server.open(t)
	img := imagetest.New(t, imagetest.Options{Layers: 4, Index: true})
	var group errgroup.Group
	for i := range 20 {
		s := one
		if i%2 == 0 {
			s = other
		}
		group.Go(func() error { return s.Save(t.Context(), key, img) })
		group.Go(func() error {
			if got, err := s.Open(t.Context(), key); err == nil {
				return image.Verify(t.Context(), got)
			}
			return nil // not yet
		})
	}
	require.NoError(t, group.Wait())
	got, err := one.Open(t.Context(), key)
	require.NoError(t, err)
	requireSame(t, img, got)
	requests, _ := server.take()
	require.LessOrEqual(t, count(requests, "PATCH "), 10, "each store sends a blob once at most")
}

func TestTheSpoolFetchesOnce(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := server.open(t, func(o *Options) { o.Registry.SpoolDir = t.TempDir() })
	keys := []string{key, "pullonce-v1-b-linux-amd64-0123456789abcdef"}
	var opened []image.Image
	for i, k := range keys {
		img := imagetest.New(t, imagetest.Options{Reference: fmt.Sprintf("image:%d", i), Layers: 3 + i})
		require.NoError(t, s.Save(t.Context(), k, img))
		got, err := s.Open(t.Context(), k)
		require.NoError(t, err)
		opened = append(opened, got)
	}
	server.take()
	for _, img := range opened {
		require.NoError(t, image.Verify(t.Context(), img))
	}
	requests, _ := server.take()
	require.Len(t, requests, 4, "four layers in all")
}

func TestRepositories(t *testing.T) {
	t.Parallel()
	for name, problem := range map[string]string{
		"ghcr.io/me/cache":            "",
		"localhost/cache":             "",
		"127.0.0.1:5000/cache":        "",
		"[::1]:5000/cache":            "",
		"me/cache":                    "names no registry",
		"cache":                       "names no registry",
		"":                            "names no registry",
		"ghcr.io":                     "names no registry",
		"ghcr.io/me/cache:1":          "has a tag or a digest",
		"ghcr.io/Me/cache":            "upper case",
		"https://ghcr.io/me/cache":    "starts with a scheme",
		"ghcr.io/me/cache@sha256:abc": "invalid reference",
	} {
		s, err := New(Options{Repository: name})
		if problem != "" {
			require.ErrorContains(t, err, problem, name)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "oci://"+name, s.String())
		require.NoError(t, s.Close())
	}
}

func TestAKeyThatIsNoTag(t *testing.T) {
	t.Parallel()
	s := newServer().open(t)
	for _, bad := range []string{"", "a/b", "a b", "-a", strings.Repeat("a", 129)} {
		_, err := s.Stat(t.Context(), bad)
		require.ErrorContains(t, err, "invalid key", bad)
		_, err = s.Open(t.Context(), bad)
		require.ErrorContains(t, err, "invalid key", bad)
		require.ErrorContains(t, s.Save(t.Context(), bad, imagetest.New(t, imagetest.Options{})), "invalid key", bad)
	}
}

func TestMirrorsAreNotAsked(t *testing.T) {
	t.Parallel()
	s := newServer().open(t, func(o *Options) {
		o.Registry.Mirrors = map[string][]string{"registry.example": {"mirror.example"}}
		o.Registry.Notify = func(e pulls.Event) { require.NotEqual(t, pulls.Mirror, e.Kind, "%s", e) }
	})
	img := imagetest.New(t, imagetest.Options{Digest: true})
	require.NoError(t, s.Save(t.Context(), key, img))
	got, err := s.Open(t.Context(), key)
	require.NoError(t, err)
	requireSame(t, img, got)
}
