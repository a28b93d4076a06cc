package regtest_test

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/regtest"
)

// once switches the client's own retry off.
var once = remote.WithRetryBackoff(remote.Backoff{Steps: 1})

func ref(t *testing.T, s string) name.Reference {
	t.Helper()
	r, err := name.ParseReference(s)
	require.NoError(t, err)
	return r
}

func TestImageIsPulledAndValid(t *testing.T) {
	t.Parallel()
	for title, img := range map[string]*regtest.Image{
		"random": regtest.RandomImage(1, 3, 100_000),
		"docker": regtest.NewImage(regtest.Config{Docker: true}, regtest.FileLayer(map[string]string{"etc/motd": "hello"})),
		"empty":  regtest.NewImage(regtest.Config{}, regtest.RandomLayer(7, 0)),
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			reg := regtest.New(regtest.Options{})
			sum := reg.Add("library/redis:7", img)
			got, err := remote.Image(ref(t, "registry.example/library/redis:7"), remote.WithTransport(reg.Transport("10.0.0.1")), once)
			require.NoError(t, err)
			requireWhole(t, got)
			have, err := got.Digest()
			require.NoError(t, err)
			require.Equal(t, sum.String(), have.String())
		})
	}
}

func TestIndexOffersItsPlatformsAndAnAttestation(t *testing.T) {
	t.Parallel()
	amd := regtest.RandomImage(1, 2, 1000)
	arm := regtest.NewImage(regtest.Config{Platform: ocispec.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}}, amd.Layers[0])
	reg := regtest.New(regtest.Options{})
	reg.Add("app:1", regtest.NewIndex(amd, arm, regtest.Attestation(amd)))
	client := []remote.Option{remote.WithTransport(reg.Transport("10.0.0.1")), once}

	index, err := remote.Index(ref(t, "registry.example/app:1"), client...)
	require.NoError(t, err)
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 3)
	require.Equal(t, "unknown/unknown", manifest.Manifests[2].Platform.String())
	require.Equal(t, amd.Descriptor().Digest.String(), manifest.Manifests[2].Annotations["vnd.docker.reference.digest"])

	got, err := remote.Image(ref(t, "registry.example/app:1"), append(client, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "arm64"}))...)
	require.NoError(t, err)
	have, err := got.Digest()
	require.NoError(t, err)
	require.Equal(t, arm.Descriptor().Digest.String(), have.String())
}

func TestSameSeedSameImage(t *testing.T) {
	t.Parallel()
	require.Equal(t, regtest.RandomImage(5, 3, 70_000).Descriptor(), regtest.RandomImage(5, 3, 70_000).Descriptor())
	require.NotEqual(t, regtest.RandomImage(5, 3, 70_000).Layers[0].Digest, regtest.RandomImage(6, 3, 70_000).Layers[0].Digest)
}

func TestLayerIsATarWithTheFile(t *testing.T) {
	t.Parallel()
	layer := regtest.FileLayer(map[string]string{"b": "two", "a": "one"})
	reg := regtest.New(regtest.Options{})
	reg.Add("x", regtest.NewImage(regtest.Config{}, layer))
	resp := get(t, reg, "/v2/x/blobs/"+layer.Digest.String())
	zr, err := gzip.NewReader(resp.Body)
	require.NoError(t, err)
	tr := tar.NewReader(zr)
	var names []string
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		names = append(names, h.Name)
	}
	require.Equal(t, []string{"a", "b"}, names)
}

func TestBlobsAreServedByRange(t *testing.T) {
	t.Parallel()
	img := regtest.RandomImage(1, 1, 300_000)
	reg := regtest.New(regtest.Options{})
	reg.Add("app:1", img)
	path := "/v2/app/blobs/" + img.Layers[0].Digest.String()
	whole, err := io.ReadAll(get(t, reg, path).Body)
	require.NoError(t, err)
	require.Len(t, whole, int(img.Layers[0].Size))

	for _, from := range []string{"0", "1", "65551", "131071", "300000"} {
		resp := get(t, reg, path, "Range", "bytes="+from+"-")
		require.Equal(t, http.StatusPartialContent, resp.StatusCode)
		part, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, whole[len(whole)-len(part):], part)
		require.Equal(t, int64(len(part)), resp.ContentLength)
	}
	require.Equal(t, http.StatusRequestedRangeNotSatisfiable, get(t, reg, path, "Range", "bytes=999999999-").StatusCode)
	require.Equal(t, "bytes=65551-", reg.Log()[3].Range())

	stubborn := regtest.New(regtest.Options{NoRange: true, Upstream: reg})
	require.Equal(t, http.StatusOK, get(t, stubborn, path, "Range", "bytes=1-").StatusCode)
}

func TestAuth(t *testing.T) {
	t.Parallel()
	user := &authn.Basic{Username: "u", Password: "p"}
	wrong := &authn.Basic{Username: "u", Password: "stale"}
	for title, c := range map[string]struct {
		auth regtest.Auth
		as   authn.Authenticator
		ok   bool
	}{
		"token, public, anonymous":    {regtest.Auth{Public: []string{"app"}}, authn.Anonymous, true},
		"token, private, anonymous":   {regtest.Auth{User: "u", Password: "p"}, authn.Anonymous, false},
		"token, private, user":        {regtest.Auth{User: "u", Password: "p"}, user, true},
		"token, public, stale secret": {regtest.Auth{User: "u", Password: "p", Public: []string{"*"}}, wrong, false},
		"basic, anonymous":            {regtest.Auth{Basic: true, User: "u", Password: "p"}, authn.Anonymous, false},
		"basic, user":                 {regtest.Auth{Basic: true, User: "u", Password: "p"}, user, true},
		"basic, wrong":                {regtest.Auth{Basic: true, User: "u", Password: "p"}, wrong, false},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			reg := regtest.New(regtest.Options{Auth: &c.auth})
			reg.Add("app:1", regtest.RandomImage(1, 1, 10))
			_, err := remote.Get(ref(t, "registry.example/app:1"), remote.WithTransport(reg.Transport("10.0.0.1")), remote.WithAuth(c.as), once)
			require.Equal(t, c.ok, err == nil, "%v", err)
		})
	}
}

func TestLogTellsKindsApart(t *testing.T) {
	t.Parallel()
	img := regtest.RandomImage(1, 2, 500)
	reg := regtest.New(regtest.Options{Auth: &regtest.Auth{Public: []string{"*"}}})
	reg.Add("team/app:1", regtest.NewIndex(img))
	got, err := remote.Image(ref(t, "registry.example/team/app:1"), remote.WithTransport(reg.Transport("10.0.0.9")), once)
	require.NoError(t, err)
	requireWhole(t, got)

	log := reg.Log()
	require.Len(t, log.Of(regtest.KindPing), 1)
	require.Len(t, log.Of(regtest.KindToken), 1)
	require.Len(t, log.Of(regtest.KindIndex), 1)
	require.Len(t, log.Of(regtest.KindManifest), 1)
	require.Len(t, log.Of(regtest.KindConfig), 1)
	blobs := log.Of(regtest.KindBlob)
	require.Equal(t, img.Layers[0].Size+img.Layers[1].Size, blobs.Filter(func(r regtest.Request) bool { return r.Method == "GET" }).Bytes())
	require.Equal(t, "10.0.0.9", log[0].Client)
	require.Equal(t, "team/app", blobs[0].Repository)
	reg.ResetLog()
	require.Empty(t, reg.Log())
}

func TestListener(t *testing.T) {
	t.Parallel()
	reg := regtest.New(regtest.Options{})
	reg.Add("app:1", regtest.RandomImage(1, 2, 50_000))
	server, err := reg.Start(regtest.Listen{Addr: "127.0.0.3:0"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	insecure, err := name.ParseReference(server.Host+"/app:1", name.Insecure)
	require.NoError(t, err)
	got, err := remote.Image(insecure, once)
	require.NoError(t, err)
	requireWhole(t, got)
	require.Equal(t, "127.0.0.1", reg.Log()[0].Client)

	_, err = reg.Start(regtest.Listen{Addr: "0.0.0.0:0"})
	require.ErrorContains(t, err, "no loopback address")
}

func TestListenerWithTLS(t *testing.T) {
	t.Parallel()
	reg, path, size := blobFixture(regtest.Options{})
	server, err := reg.Start(regtest.Listen{TLS: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	transport := regtest.Dial("127.0.0.1")
	t.Cleanup(transport.CloseIdleConnections)
	_, ok := errors.AsType[*tls.CertificateVerificationError](read(t, transport, server.URL+path).err)
	require.True(t, ok)

	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(server.CA))
	trusting := regtest.Dial("127.0.0.1")
	trusting.TLSClientConfig = &tls.Config{RootCAs: pool}
	t.Cleanup(trusting.CloseIdleConnections)
	got := read(t, trusting, server.URL+path)
	require.NoError(t, got.err)
	require.Len(t, got.data, int(size))
	reg.Script(blobs, regtest.Reset(1000))
	require.ErrorIs(t, read(t, trusting, server.URL+path).err, syscall.ECONNRESET)
}

func TestClientsAreToldApartBySourceAddress(t *testing.T) {
	t.Parallel()
	reg := regtest.New(regtest.Options{Throttle: &regtest.Throttle{Requests: 1, Window: time.Hour}})
	reg.Add("app:1", regtest.RandomImage(1, 1, 10))
	server, err := reg.Start(regtest.Listen{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	for range 2 {
		for _, ip := range []string{"127.0.1.1", "127.0.1.2"} {
			transport := regtest.Dial(ip)
			require.NoError(t, read(t, transport, server.URL+"/v2/app/manifests/1").err)
			transport.CloseIdleConnections()
		}
	}
	require.Equal(t, []int{200, 200, 429, 429}, reg.Log().Statuses())
	require.Equal(t, "127.0.1.2", reg.Log()[3].Client)
}

// requireWhole reads every layer, which the client verifies against the manifest, and compares what it unpacks to.
func requireWhole(t *testing.T, img v1.Image) {
	t.Helper()
	config, err := img.ConfigFile()
	require.NoError(t, err)
	layers, err := img.Layers()
	require.NoError(t, err)
	require.Len(t, config.RootFS.DiffIDs, len(layers))
	for i, l := range layers {
		rc, err := l.Uncompressed()
		require.NoError(t, err)
		sum := sha256.New()
		_, err = io.Copy(sum, rc)
		require.NoError(t, err)
		require.NoError(t, rc.Close())
		require.Equal(t, config.RootFS.DiffIDs[i].Hex, hex.EncodeToString(sum.Sum(nil)))
	}
}

// get asks reg for a path; headers are names and values in turn.
func get(t *testing.T, reg *regtest.Registry, path string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://registry.example"+path, nil)
	require.NoError(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := reg.Transport("10.0.0.1").RoundTrip(req)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, resp.Body.Close()) })
	return resp
}
