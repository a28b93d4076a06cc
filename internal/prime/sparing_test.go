package prime_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/prime"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/report"
)

// spooling has the bench's registry client spool in dir.
func (b *bench) spooling(t *testing.T, dir string) {
	t.Helper()
	client := registry.New(registry.Options{
		Transport: b.registry.Transport("192.0.2.1"), Insecure: func(string) bool { return true }, SpoolDir: dir,
	})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	b.options.Registry = client
}

func TestLayersThatTheStoreHasAreNotFetched(t *testing.T) {
	t.Parallel()
	b := newBench(t, "nginx:1")
	b.spooling(t, t.TempDir())
	b.options.Store = lossy{} // its Save reads no layer
	prime.Run(t.Context(), b.options)
	require.Empty(t, b.registry.Log().Of(regtest.KindBlob))
}

// What a store writes to disk itself is not written before: where the spool would be no file can be made.
func TestLayersGoStraightIntoADirectory(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7", "nginx:1")
	file := t.TempDir() + "/file"
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	b.spooling(t, file)
	done := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Success, done.Result, done.Problems)
	require.Len(t, b.registry.Log().Of(regtest.KindBlob), 5)
}
