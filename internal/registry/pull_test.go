package registry_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
)

var amd64 = platform.Platform{OS: "linux", Architecture: "amd64"}

// client is a Client whose whole network is one registry.
func client(t *testing.T, r *regtest.Registry, o registry.Options) *registry.Client {
	t.Helper()
	return overTransport(t, r.Transport("192.0.2.1"), o)
}

func overTransport(t *testing.T, transport http.RoundTripper, o registry.Options) *registry.Client {
	t.Helper()
	o.Transport = transport
	c := registry.New(o)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// readLayers reads all layers, which verifies them.
func readLayers(t *testing.T, img image.Image) {
	t.Helper()
	for i := range img.Layers() {
		require.NoError(t, readLayer(t, img, i))
	}
}

func readLayer(t *testing.T, img image.Image, i int) error {
	t.Helper()
	rc, err := img.Layer(t.Context(), i)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, rc)
	require.NoError(t, rc.Close())
	return err
}

func TestPullMakesNoRequestTooMany(t *testing.T) {
	t.Parallel()
	one := regtest.RandomImage(1, 3, 10_000)
	arm := regtest.NewImage(regtest.Config{Platform: regtestPlatform("arm64")}, regtest.RandomLayer(9, 10_000))
	for name, tc := range map[string]struct {
		artifact regtest.Artifact
		spool    bool
		kinds    []regtest.Kind
	}{
		"a single manifest": {artifact: one, kinds: kinds(regtest.KindManifest, regtest.KindConfig, regtest.KindBlob, 3)},
		"an index": {
			artifact: regtest.NewIndex(arm, one, regtest.Attestation(one)),
			kinds:    kinds(regtest.KindIndex, regtest.KindManifest, regtest.KindConfig, regtest.KindBlob, 3),
		},
		"an index, spooled": {
			artifact: regtest.NewIndex(arm, one, regtest.Attestation(one)), spool: true,
			kinds: kinds(regtest.KindIndex, regtest.KindManifest, regtest.KindConfig, regtest.KindBlob, 3),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := regtest.New(regtest.Options{})
			root := r.Add("library/a:1", tc.artifact)
			o := registry.Options{}
			if tc.spool {
				o.SpoolDir = t.TempDir()
			}
			c := client(t, r, o)

			pull, err := c.Pull(t.Context(), reference.MustParse("a:1"), amd64)
			require.NoError(t, err)
			readLayers(t, pull.Image)

			require.Equal(t, root, pull.Image.Root().Digest)
			require.Equal(t, one.Descriptor().Digest, pull.Image.Manifest().Digest)
			require.Equal(t, 1, pull.Attempts())
			require.False(t, pull.Authenticated)
			require.Equal(t, tc.kinds, requested(r))
			require.NoError(t, pull.Close())
		})
	}
}
