package containerd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/command/commandtest"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/target"
)

// The kubelet finds an image by its names: those of one whose layers were recompressed stand for the manifest that lists
// these layers.
func TestRecompressed(t *testing.T) {
	t.Parallel()
	options := imagetest.Options{Index: true, Layers: 3, Digest: true}
	exact := imagetest.New(t, options)
	options.Recompressed = true
	packed := imagetest.New(t, options)
	carrier := packed.Carrier().Digest.String()
	names := map[string]string{tag: carrier, byRoot: carrier, byManifest: carrier}

	for name, partSize := range map[string]int64{"whole": 0, "in parts": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, true)
			d.partSize = partSize
			d.label("new", packed)
			var opened opens
			result, err := d.target().Load(t.Context(), opened.of(packed))
			require.NoError(t, err)
			require.Equal(t, target.Loaded, result.Outcome)
			require.Empty(t, result.Unresolvable)
			require.Equal(t, names, d.state())
			require.Equal(t, layersOf(packed, 0), opened.layers)

			result, err = d.target().Load(t.Context(), packed)
			require.NoError(t, err)
			require.Equal(t, target.Result{Outcome: target.Present}, result)
		})
	}
	t.Run("the registry's own layers are just as good", func(t *testing.T) {
		t.Parallel()
		d := newDaemon(t, true)
		for _, img := range []image.Image{exact, packed} {
			_, err := d.target().Load(t.Context(), img)
			require.NoError(t, err)
		}
		require.Equal(t, 1, imports(d))
	})
	t.Run("where the layers can be read", func(t *testing.T) {
		t.Parallel()
		d := newDaemon(t, true)
		d.imported = func(string, string) error {
			return commandtest.Failure(1, "ctr: unknown image layer media type application/vnd.oci.image.layer.v1.tar+zstd\n")
		}
		_, err := d.target().Load(t.Context(), packed)
		require.ErrorIs(t, err, target.ErrRecompressed)
		require.ErrorContains(t, err, "zstd needs 1.5 or later")
		require.Empty(t, d.state())
		_, err = d.target().Load(t.Context(), exact)
		require.NotErrorIs(t, err, target.ErrRecompressed)
	})
	t.Run("but not the other way about", func(t *testing.T) {
		t.Parallel()
		d := newDaemon(t, true)
		d.label("new", exact)
		for _, img := range []image.Image{packed, exact} {
			_, err := d.target().Load(t.Context(), img)
			require.NoError(t, err)
		}
		require.Equal(t, map[string]string{tag: "new.root", byRoot: "new.root", byManifest: "new.root"}, d.state())
	})
}
