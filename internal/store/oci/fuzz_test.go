package oci

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/store"
)

// FuzzUnseal holds whatever a registry may serve under a tag to be refused as corrupt, or to be an image that its
// reference allows.
func FuzzUnseal(f *testing.F) {
	for _, o := range []imagetest.Options{{}, {Index: true, Digest: true}, {Layers: -1}, {Index: true, Recompressed: true, Repeat: true}} {
		sealed, err := seal(record{Key: key, Saved: time.Unix(0, 0).UTC()}, imagetest.New(f, o))
		require.NoError(f, err)
		f.Add(sealed.data)
	}
	f.Add([]byte(`{"annotations":{"` + entryAnnotation + `":"{}"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := unseal(key, data)
		if err != nil {
			require.ErrorIs(t, err, store.ErrCorrupt)
			return
		}
		require.Equal(t, key, e.entry().Key)
		parts, err := e.parts()
		if err != nil {
			require.ErrorIs(t, err, store.ErrCorrupt)
			return
		}
		parts.Source = imagetest.Blobs{}
		img, err := image.New(parts)
		if err != nil {
			return
		}
		if want := e.Reference.Digest(); want != "" {
			require.Equal(t, want, img.Root().Digest)
		}
	})
}

func TestPackedIsUnpacked(t *testing.T) {
	t.Parallel()
	for _, data := range [][]byte{{}, []byte("{}"), make([]byte, image.MaxDocument)} {
		e := envelope{}
		e.manifest.Annotations = map[string]string{rootAnnotation: pack(data)}
		got, err := e.unpack(rootAnnotation)
		require.NoError(t, err)
		require.Equal(t, string(data), string(got))
	}
	bomb := envelope{}
	bomb.manifest.Annotations = map[string]string{rootAnnotation: pack(make([]byte, 20<<20))}
	got, err := bomb.unpack(rootAnnotation)
	require.NoError(t, err)
	require.Len(t, got, image.MaxDocument+1, "no more is unpacked than it takes to refuse it")
}
