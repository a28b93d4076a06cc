package prime_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/prime"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
)

// hoarding is a store that has every layer already: its Save reads none.
type hoarding struct {
	lossy
	spares bool
}

func (s hoarding) SparesLayers() bool { return s.spares }

func TestLayersThatTheStoreHasAreNotFetched(t *testing.T) {
	t.Parallel()
	for spares, want := range map[bool]int{true: 0, false: 3} {
		b := newBench(t, "nginx:1")
		client := registry.New(registry.Options{
			Transport: b.registry.Transport("192.0.2.1"), Insecure: func(string) bool { return true }, SpoolDir: t.TempDir(),
		})
		b.options.Registry, b.options.Store = client, hoarding{spares: spares}
		prime.Run(t.Context(), b.options)
		require.Len(t, b.registry.Log().Of(regtest.KindBlob), want)
		require.NoError(t, client.Close())
	}
}
