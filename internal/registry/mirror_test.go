package registry_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/retry"
)

// pair is a registry with a mirror.
type pair struct {
	origin, mirror *regtest.Registry
	image          *regtest.Image
	client         *registry.Client
	events         *[]string
}

func newPair(t *testing.T, spool string) pair {
	t.Helper()
	img := regtest.RandomImage(3, 2, layerSize)
	p := pair{origin: regtest.New(regtest.Options{}), image: img, events: new([]string)}
	p.origin.Add("some/app:1", img)
	p.mirror = regtest.New(regtest.Options{})
	p.mirror.Add("hub/some/app:1", img)
	network := regtest.Transport("192.0.2.1", map[string]http.Handler{"registry.example": p.origin, "mirror.example": p.mirror})
	p.client = overTransport(t, network, registry.Options{
		Policy: steady, SpoolDir: spool,
		Mirrors: map[string][]string{"registry.example": {"mirror.example/hub"}},
		Notify:  func(e registry.Event) { *p.events = append(*p.events, e.String()) },
	})
	return p
}

func (p pair) byTag() string    { return "registry.example/some/app:1" }
func (p pair) byDigest() string { return p.byTag() + "@" + p.image.Descriptor().Digest.String() }

func TestMirrorServesADigestBeforeTheOrigin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, "")
		pull, err := p.client.Pull(t.Context(), reference.MustParse(p.byDigest()), amd64)
		require.NoError(t, err)
		readLayers(t, pull.Image)
		require.Empty(t, p.origin.Log())
		require.Len(t, p.mirror.Log(), 4)
		require.Equal(t, "registry.example/some/app:1", pull.Image.Reference().Tagged())
	})
}

func TestMirrorServesATagOnlyWhenTheOriginThrottles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, "")
		_, err := p.client.Pull(t.Context(), reference.MustParse(p.byTag()), amd64)
		require.NoError(t, err)
		require.Empty(t, p.mirror.Log())

		p.origin.Always(regtest.Match{}, regtest.Status(429))
		start := time.Now()
		pull, err := p.client.Pull(t.Context(), reference.MustParse(p.byTag()), amd64)
		require.NoError(t, err)
		readLayers(t, pull.Image)
		require.Equal(t, start, time.Now(), "nobody waits for the origin")
		require.Len(t, p.origin.Log(), 3)
		require.Contains(t, strings.Join(*p.events, "\n"), "some/app:1: mirror.example serves manifests/1 while registry.example throttles")
	})
}

func TestMirrorNeverFailsThePull(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind  regtest.Kind // "" is all
		fault regtest.Fault
		after time.Duration
		// served is how many requests the origin gets: it takes over where the mirror fails.
		served int
	}{
		"not there":                        {fault: regtest.Status(404), served: 4},
		"throttled":                        {fault: regtest.Answer(429, "text/plain", "", "Retry-After", "30"), served: 4},
		"in trouble":                       {fault: regtest.Status(503), served: 4},
		"refuses":                          {fault: regtest.Status(401), served: 4},
		"hangs":                            {fault: regtest.Hang(), after: 15 * time.Second, served: 4},
		"another manifest":                 {kind: regtest.KindManifest, fault: regtest.Flip(20), served: 4},
		"a web page":                       {kind: regtest.KindManifest, fault: regtest.HTML(), served: 4},
		"lacks the config":                 {kind: regtest.KindConfig, fault: regtest.Status(404), served: 3},
		"half a blob for good":             {kind: regtest.KindBlob, fault: regtest.Resize(-layerSize / 2), served: 2},
		"a few bytes of a blob for good":   {kind: regtest.KindBlob, fault: regtest.Resize(-layerSize), served: 2},
		"wrong bytes":                      {kind: regtest.KindBlob, fault: regtest.Flip(layerSize / 2), served: 2},
		"stalls":                           {kind: regtest.KindBlob, fault: regtest.Stall(layerSize / 2), after: 30 * time.Second, served: 2},
		"connection reset within its blob": {kind: regtest.KindBlob, fault: regtest.Reset(layerSize / 2), served: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spool := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, spool)
				p.mirror.Always(regtest.Match{Kind: tc.kind}, tc.fault)
				start := time.Now()
				pull, err := p.client.Pull(t.Context(), reference.MustParse(p.byDigest()), amd64)
				require.NoError(t, err)
				readLayers(t, pull.Image)
				require.Equal(t, tc.after, time.Since(start))
				require.Len(t, p.origin.Log(), tc.served)
				require.Contains(t, strings.Join(*p.events, "\n"), "mirror.example is left out")
			})
		})
	}
}

func TestLaggingMirrorIsNotAskedForTheDigestOfATag(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, "")
		p.mirror.Add("hub/some/app:1", regtest.RandomImage(4, 1, 1000))
		d, err := p.client.Digest(t.Context(), reference.MustParse(p.byTag()))
		require.NoError(t, err)
		require.Equal(t, p.image.Descriptor().Digest, d)
		require.Empty(t, p.mirror.Log())
	})
}

func TestOriginDecidesWhereTheMirrorLacksTheImage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, "")
		p.origin.Always(regtest.Match{}, regtest.Status(404))
		p.mirror.Always(regtest.Match{}, regtest.Status(503))
		_, err := p.client.Pull(t.Context(), reference.MustParse(p.byDigest()), amd64)
		class, _ := retry.ClassOf(err)
		require.Equal(t, retry.Permanent, class)
		require.ErrorContains(t, err, "registry.example: 404 Not Found")
	})
}
