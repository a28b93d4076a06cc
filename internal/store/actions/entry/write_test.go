package entry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/store/actions/entry"
)

// blocks keeps the blocks of an entry.
type blocks struct {
	data  map[int][]byte
	order []int
	out   int // buffers that were given and are neither handed over nor given back
	// fails is called before a block is taken; it may be nil.
	fails func(i int) error
}

func (b *blocks) Room(context.Context) ([]byte, error) {
	b.out++
	return make([]byte, 0, entry.BlockSize), nil
}

func (b *blocks) Free([]byte) { b.out-- }

func (b *blocks) Block(i int, data []byte) error {
	b.out--
	if b.fails != nil {
		if err := b.fails(i); err != nil {
			return err
		}
	}
	if b.data == nil {
		b.data = map[int][]byte{}
	}
	b.data[i] = data
	b.order = append(b.order, i)
	return nil
}

func (b *blocks) join() []byte {
	var all bytes.Buffer
	for i := range len(b.data) {
		all.Write(b.data[i])
	}
	return all.Bytes()
}

// draft is the plan of img's entry.
func draft(t *testing.T, img image.Image) *entry.Draft {
	t.Helper()
	w, err := entry.NewWriter()
	require.NoError(t, err)
	d, err := w.Draft(key, img, saved)
	require.NoError(t, err)
	return d
}

func TestTheFirstBlockComesLast(t *testing.T) {
	t.Parallel()
	d := draft(t, large(t))
	var sent blocks
	_, err := d.Write(t.Context(), &sent)
	require.NoError(t, err)
	last := d.Blocks() - 1
	require.Greater(t, last, 2)
	for i, block := range sent.order[:last] {
		require.Equal(t, i+1, block)
		require.LessOrEqual(t, cap(sent.data[block]), entry.BlockSize, "it fits into its buffer")
	}
	require.Zero(t, sent.order[last])
}

// What is sent a second time, under another key or after a time, is the same.
func TestBlocksAreTheSameEachTime(t *testing.T) {
	t.Parallel()
	for name, o := range shapes {
		d := draft(t, imagetest.New(t, o))
		var first, second blocks
		for _, b := range []*blocks{&first, &second} {
			_, err := d.Write(t.Context(), b)
			require.NoError(t, err)
		}
		require.Equal(t, first.data, second.data, name)
	}
}

func TestASmallEntryIsOneBlock(t *testing.T) {
	t.Parallel()
	for layers, want := range map[int]int{1: 1, 6: 1, 7: 3, 12: 3, 13: 4} {
		d := draft(t, imagetest.New(t, imagetest.Options{Layers: layers, LayerSize: 1 << 20}))
		require.Equal(t, want, d.Blocks(), "%d layers", layers)
	}
}

func TestABlockThatIsNotTakenEndsTheWriting(t *testing.T) {
	t.Parallel()
	d := draft(t, large(t))
	for at := range d.Blocks() {
		sent := blocks{fails: func(i int) error {
			if i == at {
				return errBroken
			}
			return nil
		}}
		_, err := d.Write(t.Context(), &sent)
		require.ErrorIs(t, err, errBroken)
		require.Zero(t, sent.out)
	}
}

// The last block holds the index, without which there is no entry. It is not made of an image that can't be read.
func TestOfAnImageThatDoesNotVerifyNoIndexIsMade(t *testing.T) {
	t.Parallel()
	for name, blob := range map[string]imagetest.Source{
		"broken": func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) { return nil, errBroken },
		"wrong": func(_ context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
			return io.NopCloser(io.LimitReader(zeros{}, d.Size)), nil
		},
		"short": func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(nil)), nil
		},
	} {
		parts := imagetest.Parts(t, imagetest.Options{Layers: 2, LayerSize: 5 << 20})
		parts.Source = blob
		img, err := image.New(parts)
		require.NoError(t, err)
		var sent blocks
		_, err = draft(t, img).Write(t.Context(), &sent)
		require.True(t, errors.Is(err, errBroken) || errors.Is(err, image.ErrVerify), "%s: %v", name, err)
		require.NotContains(t, sent.order, 0, name)
		require.Zero(t, sent.out, name)
	}
}
