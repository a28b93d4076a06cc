//go:build linux

package e2e

import (
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/store"
)

// Blobs that are lost, cut or changed on the registry's disk: a lane warns and pulls, prime finds them when it reads
// again, sends what is lost, and says what no push can cure.
func TestRegistryBlobsSpoiled(t *testing.T) {
	forEachBrand(t, func(t *testing.T, b brand) {
		f := needImages(t)
		source := startRegistry(t, f.storage)
		spoils := map[string]func(t *testing.T, path string){
			"lost":    func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
			"changed": flipMiddle,
			"cut":     func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 1<<19)) },
			"empty":   func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) },
		}
		for what, spoil := range spoils {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				d, p := b.start(t), pullonce(t, nil)
				list := flags(t, d.addr, source.addr+"/"+f.medium.repoTag)
				require.Equal(t, 0, p.run(t, with([]string{"prime"}, list...)...).code)
				spoil(t, d.blob(largestLayer(t, d)))

				inspected := rows(t, p, 1, with([]string{"inspect"}, list[2:]...)...)
				require.Contains(t, inspected[0].Problem, "corrupt entry")
				primed := p.run(t, with([]string{"prime", "--verify", "full", "--timeout", "60s"}, list...)...)
				if what != "lost" {
					require.Equal(t, 1, primed.code)
					primed.requireOne(t, report.Error, f.medium.repoTag, "the registry keeps a damaged copy of sha256:")
					return
				}
				require.Equal(t, 0, primed.code)
				require.Equal(t, []report.Source{report.Registry}, primed.sources())
				require.Len(t, rows(t, p, 0, with([]string{"inspect"}, list[2:]...)...), 1)
			})
		}
	})
}

// A lane that meets a spoiled layer pulls the image instead.
func TestRegistryLaneWithSpoiledBlob(t *testing.T) {
	forEachBrand(t, func(t *testing.T, b brand) {
		f := needImages(t)
		source, d, p := startRegistry(t, f.storage), b.start(t), pullonce(t, engines()[0].start(t))
		list := flags(t, d.addr, source.addr+"/"+f.medium.repoTag)
		require.Equal(t, 0, p.run(t, with([]string{"prime"}, list...)...).code)
		flipMiddle(t, d.blob(largestLayer(t, d)))
		loaded := p.run(t, with([]string{"load"}, list...)...)
		require.Equal(t, 0, loaded.code)
		require.Equal(t, []report.Source{report.Registry}, loaded.sources())
		loaded.requireOne(t, report.Warning, f.medium.repoTag, "corrupt entry")
	})
}

// largestLayer is the digest of the largest layer in the one entry of a depot.
func largestLayer(t *testing.T, d depot) string {
	t.Helper()
	s := openDepot(t, d.addr)
	listed, err := s.List(t.Context())
	require.NoError(t, err)
	require.Len(t, listed, 1)
	img, err := s.Open(t.Context(), listed[0].Key)
	require.NoError(t, err)
	largest := img.Layers()[0].Descriptor
	for _, l := range img.Layers() {
		if l.Descriptor.Size > largest.Size {
			largest = l.Descriptor
		}
	}
	return largest.Digest.String()
}

func flipMiddle(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o644))
}

// Killed at any moment, prime leaves a registry in which all that can be seen is whole, and the next prime completes it.
func TestRegistryPrimeKilled(t *testing.T) {
	forEachBrand(t, func(t *testing.T, b brand) {
		f := needImages(t)
		source, p, random := startRegistry(t, f.storage), pullonce(t, nil), seeded(t)
		refs := []string{source.addr + "/" + f.small.repoTag, source.addr + "/" + f.medium.repoTag}
		slowly := func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet {
				time.Sleep(20 * time.Millisecond) // so that moments fall into every stage
			}
			return false
		}
		d := startFront(t, b.start(t))
		d.set(slowly)
		_, length := killAfter(t, p, time.Hour, with([]string{"prime"}, flags(t, d.addr, refs...)...)...)
		partial := 0
		const moments = 12
		for i := range moments {
			d := startFront(t, b.start(t))
			d.set(slowly)
			list := flags(t, d.addr, refs...)
			moment := time.Duration((float64(i) + random.Float64()) / moments * float64(length))
			killed, ran := killAfter(t, p, moment, with([]string{"prime"}, list...)...)
			sent := d.sent.Load()
			seen := 0
			if _, err := openDepot(t, d.addr).List(t.Context()); !errors.Is(err, store.ErrNoPlace) { // something was pushed
				seen = len(rows(t, p, 0, with([]string{"inspect"}, list[2:]...)...))
			}
			t.Logf("killed (%t) after %s of %s: %d bytes sent, %d entries, all whole", killed, ran.Round(time.Millisecond), length.Round(time.Millisecond), sent, seen)
			if killed && sent > 0 && seen < len(refs) {
				partial++
			}
			require.Equal(t, 0, p.run(t, with([]string{"prime"}, list...)...).code, "the prime after the kill")
			require.Len(t, rows(t, p, 0, with([]string{"inspect"}, list[2:]...)...), len(refs))
		}
		require.GreaterOrEqual(t, partial, 3, "kills while something was being sent")
	})
}
