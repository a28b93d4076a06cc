package entry_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/store/actions/entry"
)

// benchmarked is an image of one layer of 64 MiB, which does not compress.
func benchmarked(b *testing.B) image.Image {
	b.Helper()
	return imagetest.New(b, imagetest.Options{LayerSize: 64 << 20})
}

// dropped takes blocks and drops them.
type dropped struct{ free [][]byte }

func (d *dropped) Room(context.Context) ([]byte, error) {
	if n := len(d.free); n > 0 {
		buf := d.free[n-1]
		d.free = d.free[:n-1]
		return buf, nil
	}
	return make([]byte, 0, entry.BlockSize), nil
}

func (d *dropped) Free(buf []byte) { d.free = append(d.free, buf[:0]) }

func (d *dropped) Block(_ int, data []byte) error {
	d.Free(data)
	return nil
}

// BenchmarkWrite makes the frames of an entry, from layers in memory that are verified.
func BenchmarkWrite(b *testing.B) {
	img := benchmarked(b)
	w, err := entry.NewWriter()
	require.NoError(b, err)
	var to dropped
	b.SetBytes(img.Size())
	b.ReportAllocs()
	for b.Loop() {
		d, err := w.Draft(key, img, saved)
		require.NoError(b, err)
		_, err = d.Write(b.Context(), &to)
		require.NoError(b, err)
	}
}

// BenchmarkRead reads and verifies the layer of an entry, one of ours and one of actions/cache.
func BenchmarkRead(b *testing.B) {
	img := benchmarked(b)
	for from, write := range makers {
		b.Run(from, func(b *testing.B) {
			m := &memory{data: write(b, img)}
			r := newReader(b)
			b.SetBytes(img.Size())
			b.ReportAllocs()
			for b.Loop() {
				ctx, cancel := context.WithCancel(b.Context())
				got, err := r.Open(ctx, m, m.prefix(), key)
				require.NoError(b, err)
				require.NoError(b, image.Verify(ctx, got))
				cancel()
			}
		})
	}
}
