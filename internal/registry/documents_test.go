package registry_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/retry"
)

// serve answers with a document of the test's own making.
func serve(mediaType, body string) regtest.Fault { return regtest.Answer(200, mediaType, body) }

func TestWhatIsNoImageForThePlatformIsPermanent(t *testing.T) {
	t.Parallel()
	arm := regtest.NewImage(regtest.Config{Platform: regtestPlatform("arm64")}, regtest.RandomLayer(1, 1000))
	s390x := regtest.NewImage(regtest.Config{Platform: regtestPlatform("s390x")}, regtest.RandomLayer(2, 1000))
	const manifest = "application/vnd.oci.image.manifest.v1+json"
	for name, tc := range map[string]struct {
		artifact regtest.Artifact
		fault    regtest.Fault
		says     string
	}{
		"not in the index":        {artifact: regtest.NewIndex(arm, regtest.Attestation(arm), s390x), says: "no image for linux/amd64: the index has linux/arm64, linux/s390x"},
		"a single manifest":       {artifact: arm, says: "no image for linux/amd64: there is one for linux/arm64"},
		"a chart in an index":     {artifact: regtest.NewIndex(regtest.Chart(nil)), says: `not a container image (config media type "application/vnd.cncf.helm.config.v1+json")`},
		"no type of config":       {fault: serve(manifest, `{"schemaVersion":2,"config":{}}`), says: `not a container image (config media type "")`},
		"schema version 1":        {fault: serve("application/json", `{"schemaVersion":1}`), says: "unsupported manifest: schema version 1"},
		"neither index nor image": {fault: serve(manifest, `{"schemaVersion":2}`), says: "unsupported manifest"},
		"a config beyond measure": {fault: serve(manifest, `{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:`+zeros+`","size":99999999}}`), says: "the config has 99999999 bytes"},
		"a config without digest": {fault: serve(manifest, `{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json"}}`), says: "config digest"},
		"unknown":                 {says: "404 Not Found: manifest_unknown: manifest unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := regtest.New(regtest.Options{})
			if tc.artifact != nil {
				r.Add("app:1", tc.artifact)
			}
			if tc.fault != nil {
				r.Always(regtest.Match{}, tc.fault)
			}
			start := time.Now()
			_, err := client(t, r, registry.Options{}).Pull(t.Context(), reference.MustParse("registry.example/app:1"), amd64)
			require.ErrorContains(t, err, "pulling registry.example/app:1: ")
			require.ErrorContains(t, err, tc.says)
			class, _ := retry.ClassOf(err)
			require.Equal(t, retry.Permanent, class)
			require.Less(t, time.Since(start), time.Second)
		})
	}
}

func TestArtifactIsPulledForAnyPlatform(t *testing.T) {
	t.Parallel()
	r := regtest.New(regtest.Options{})
	want := r.Add("chart:1", regtest.Chart(map[string]string{"chart/Chart.yaml": "name: chart"}))
	pull, err := client(t, r, registry.Options{}).Pull(t.Context(), reference.MustParse("registry.example/chart:1"), amd64)
	require.NoError(t, err)
	require.True(t, pull.Image.Artifact())
	require.Equal(t, want, pull.Image.Root().Digest)
	require.NoError(t, image.Verify(t.Context(), pull.Image))
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

func TestRootIsWhatTheReferenceSays(t *testing.T) {
	t.Parallel()
	img := regtest.RandomImage(1, 1, 1000)
	index := regtest.NewIndex(img)
	r := regtest.New(regtest.Options{})
	r.Add("app:1", index)
	c := client(t, r, registry.Options{})
	for name, tc := range map[string]struct {
		ref  string
		root digest.Digest
	}{
		"tag":                 {"registry.example/app:1", index.Descriptor().Digest},
		"tag and index":       {"registry.example/app:1@" + index.Descriptor().Digest.String(), index.Descriptor().Digest},
		"digest of a child":   {"registry.example/app@" + img.Descriptor().Digest.String(), img.Descriptor().Digest},
		"a moved tag, pinned": {"registry.example/app:0@" + index.Descriptor().Digest.String(), index.Descriptor().Digest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pull, err := c.Pull(t.Context(), reference.MustParse(tc.ref), amd64)
			require.NoError(t, err)
			require.Equal(t, tc.root, pull.Image.Root().Digest)
			require.Equal(t, img.Descriptor().Digest, pull.Image.Manifest().Digest)
		})
	}
}

func TestShortNamesAndAddressesAreReferencesToo(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"[::1]:5000/a:1", "host:5000/x:1", "localhost/a/b:1", "a.b/c:1", "a:1"} {
		ref := reference.MustParse(name)
		r := regtest.New(regtest.Options{Auth: &regtest.Auth{Public: []string{"*"}}})
		r.Add(ref.Path()+":1", regtest.RandomImage(1, 1, 1000))
		pull, err := client(t, r, registry.Options{}).Pull(t.Context(), ref, amd64)
		require.NoError(t, err, name)
		require.Equal(t, ref, pull.Image.Reference())
	}
}

func TestDigestTakesOneHead(t *testing.T) {
	t.Parallel()
	r := regtest.New(regtest.Options{})
	want := r.Add("app:1", regtest.RandomImage(1, 1, 1000))
	got, err := client(t, r, registry.Options{}).Digest(t.Context(), reference.MustParse("registry.example/app:1"))
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Len(t, r.Log(), 1)
	require.Equal(t, http.MethodHead, r.Log()[0].Method)
}

func TestDigestOfARegistryThatDoesNotSayIt(t *testing.T) {
	t.Parallel()
	r := regtest.New(regtest.Options{})
	want := r.Add("app:1", regtest.RandomImage(1, 1, 1000))
	r.Script(regtest.Match{Method: http.MethodHead}, serve("application/json", ""))
	got, err := client(t, r, registry.Options{}).Digest(t.Context(), reference.MustParse("registry.example/app:1"))
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Len(t, r.Log(), 2)
}

func TestHubLimitIsRead(t *testing.T) {
	t.Parallel()
	r := regtest.New(regtest.Options{Throttle: &regtest.Throttle{Requests: 100, Window: 6 * time.Hour, HubHeaders: true}})
	r.Add("library/app:1", regtest.RandomImage(1, 1, 1000))
	c := client(t, r, registry.Options{})
	pull, err := c.Pull(t.Context(), reference.MustParse("app:1"), amd64)
	require.NoError(t, err)
	require.Equal(t, map[string]registry.RateLimit{"docker.io": pull.RateLimit}, c.RateLimits())
	require.Equal(t, registry.RateLimit{Limit: 100, Remaining: 99, Window: 6 * time.Hour, Source: "192.0.2.1"}, pull.RateLimit)
	require.Equal(t, "99 of 100 pulls left in 6h0m0s for 192.0.2.1", pull.RateLimit.String())
}

func TestErrorsAreOneCleanLine(t *testing.T) {
	t.Parallel()
	r := regtest.New(regtest.Options{})
	r.Always(regtest.Match{}, regtest.Answer(400, "application/json", regtest.ErrorBody("TOOBAD", "id dckr_jti_s3cret\n::error::x\x1b[2J see https://a.example/?sig=s3cret")))
	_, err := client(t, r, registry.Options{}).Pull(t.Context(), reference.MustParse("registry.example/app:1"), amd64)
	require.ErrorContains(t, err, "registry.example: 400 Bad Request: toobad: id dckr_… ::error::x [2J see https://a.example/?…")
	require.NotContains(t, err.Error(), "s3cret")
	require.NotContains(t, err.Error(), "\n")
}
