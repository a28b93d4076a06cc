package fanout_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/fanout"
	"github.com/pullonce/pullonce/internal/image/imagetest"
)

const layers = 3

// counting is a source that counts what was opened and what was left open.
type counting struct {
	imagetest.Blobs
	spoil func(r io.Reader) io.Reader

	mu     sync.Mutex
	opened map[digest.Digest]int
	open   int
}

// Blob implements image.Source.
func (c *counting) Blob(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rc, err := c.Blobs.Blob(ctx, d)
	if err != nil {
		return nil, err
	}
	c.opened[d.Digest]++
	c.open++
	r := io.Reader(rc)
	if c.spoil != nil {
		r = c.spoil(rc)
	}
	return struct {
		io.Reader
		io.Closer
	}{r, closer(c.close)}, nil
}

func (c *counting) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	return nil
}

type closer func() error

func (c closer) Close() error { return c() }

// total is how many blobs were opened; none may be open any more.
func (c *counting) total(t *testing.T) (n int) {
	t.Helper()
	require.Zero(t, c.open, "blobs left open")
	for _, count := range c.opened {
		n += count
	}
	return n
}

// newImage has three layers of the given size.
func newImage(t *testing.T, size int) (image.Image, *counting, []byte) {
	t.Helper()
	parts := imagetest.Parts(t, imagetest.Options{Layers: layers, LayerSize: size})
	source := &counting{Blobs: parts.Source.(imagetest.Blobs), opened: map[digest.Digest]int{}}
	parts.Source = source
	img, err := image.New(parts)
	require.NoError(t, err)
	var archive bytes.Buffer
	require.NoError(t, image.Encode(t.Context(), &archive, img))
	source.opened = map[digest.Digest]int{}
	return img, source, archive.Bytes()
}

// takes encodes a share and holds it to the archive.
func takes(t *testing.T, share image.Image, want []byte) {
	t.Helper()
	var got bytes.Buffer
	require.NoError(t, image.Encode(t.Context(), &got, share))
	require.True(t, bytes.Equal(want, got.Bytes()))
}

const large, small = fanout.Window + 256<<10, 1000

func TestOneReadForAll(t *testing.T) {
	t.Parallel()
	for _, size := range []int{small, large} {
		img, source, archive := newImage(t, size)
		fanout.Each(t.Context(), img, 3, func(_ int, share image.Image) { takes(t, share, archive) })
		require.Equal(t, layers, source.total(t))
	}
}

// Those who need nothing, or not all, hold nobody up.
func TestPartialTakers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img, source, archive := newImage(t, large)
		began := time.Now()
		fanout.Each(t.Context(), img, 4, func(i int, share image.Image) {
			switch i {
			case 0, 1:
				takes(t, share, archive)
			case 2:
				rc, err := share.Layer(t.Context(), 2)
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, rc)
				require.NoError(t, err)
				require.NoError(t, rc.Close())
			}
		})
		require.Zero(t, time.Since(began))
		require.Equal(t, layers, source.total(t))
	})
}

// One that is slow to begin, or stalls anywhere, is waited for once, and then gets the same bytes by itself.
func TestStallHoldsUpOnce(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]int{"before the first": 0, "within a layer": large / 2, "between layers": large + 3000, "in the last": 2*large + 100_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				img, source, archive := newImage(t, large)
				began := time.Now()
				fanout.Each(t.Context(), img, 3, func(i int, share image.Image) {
					if i > 0 {
						takes(t, share, archive)
						require.LessOrEqual(t, time.Since(began), fanout.Patience)
						return
					}
					var got bytes.Buffer
					w := &stalling{w: &got, left: at, stall: func() { time.Sleep(time.Hour) }}
					require.NoError(t, image.Encode(t.Context(), w, share))
					require.True(t, bytes.Equal(archive, got.Bytes()))
				})
				require.LessOrEqual(t, source.total(t), 2*layers)
			})
		})
	}
}

// stalling stalls once it has taken some bytes.
type stalling struct {
	w     io.Writer
	left  int
	stall func()
}

// Write implements io.Writer.
func (s *stalling) Write(p []byte) (int, error) {
	if s.left -= len(p); s.left <= 0 && s.stall != nil {
		s.stall()
		s.stall = nil
	}
	return s.w.Write(p)
}

// One that comes back for a layer that the others have had reads it for itself, and they go on meanwhile.
func TestOneThatReadsAloneHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img, source, archive := newImage(t, large)
		began := time.Now()
		fanout.Each(t.Context(), img, 3, func(i int, share image.Image) {
			if i > 0 {
				takes(t, share, archive)
				require.Zero(t, time.Since(began))
				return
			}
			for _, layer := range []int{1, 0} {
				rc, err := share.Layer(t.Context(), layer)
				require.NoError(t, err)
				if layer == 0 {
					_, err = rc.Read(make([]byte, 1))
					require.NoError(t, err)
					time.Sleep(time.Hour)
				}
				_, err = io.Copy(io.Discard, rc)
				require.NoError(t, err)
				require.NoError(t, rc.Close())
			}
		})
		require.Equal(t, layers+1, source.total(t))
	})
}

// One whose target dies does not read on; the others do, with no other read.
func TestDeathHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img, source, archive := newImage(t, large)
		began := time.Now()
		dead := errors.New("dead")
		fanout.Each(t.Context(), img, 3, func(i int, share image.Image) {
			if i > 0 {
				takes(t, share, archive)
				return
			}
			require.ErrorIs(t, image.Encode(t.Context(), failing{dead}, share), dead)
		})
		require.Zero(t, time.Since(began))
		require.Equal(t, layers, source.total(t))
	})
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// What is wrong with the source is told to all.
func TestBrokenSourceBreaksAll(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		spoil func(io.Reader) io.Reader
		want  error
	}{
		"an error": {func(r io.Reader) io.Reader { return io.MultiReader(io.LimitReader(r, 5000), iotest.ErrReader(broken)) }, broken},
		"an end":   {func(r io.Reader) io.Reader { return io.LimitReader(r, 5000) }, image.ErrVerify},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			img, source, _ := newImage(t, 100_000)
			source.spoil = test.spoil
			fanout.Each(t.Context(), img, 3, func(_ int, share image.Image) {
				err := image.Encode(t.Context(), io.Discard, share)
				require.ErrorIs(t, err, test.want)
				require.ErrorIs(t, err, image.ErrRead)
			})
			require.Equal(t, 1, source.total(t))
		})
	}
}

func TestEndOfContextEndsEveryWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img, source, _ := newImage(t, large)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		fanout.Each(ctx, img, 3, func(i int, share image.Image) {
			switch i {
			case 0: // never wants anything
				<-ctx.Done()
			default: // waits for the other
				require.ErrorIs(t, image.Encode(ctx, io.Discard, share), context.Canceled)
			}
		})
		require.Equal(t, time.Second, time.Since(began))
		require.Zero(t, source.total(t))
	})
}
