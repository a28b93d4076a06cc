package entry_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/store/actions/entry"
)

const key = "pullonce-v1-test-linux-amd64-0123456789abcdef"

var saved = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// shapes are the kinds of image that an entry may hold. Layers do not compress; one chunk has 2 MiB.
var shapes = map[string]imagetest.Options{
	"one layer":     {},
	"no layer":      {Layers: -1},
	"many small":    {Layers: 40, Index: true},
	"several large": {Layers: 2, LayerSize: 5 << 20},
	"a layer twice": {Layers: 2, LayerSize: 5 << 19, Repeat: true},
	"by digest":     {Index: true, ByDigest: true, Layers: 2},
}

// large is an image of four layers with three chunks each. It is made once: that takes longer than the tests do.
func large(t testing.TB) image.Image {
	t.Helper()
	largeOnce.Do(func() { largeImage = imagetest.New(t, imagetest.Options{Layers: 4, LayerSize: 5 << 20}) })
	return largeImage
}

var (
	largeOnce  sync.Once
	largeImage image.Image
)

// ours is img's entry as a Writer makes it.
func ours(t testing.TB, img image.Image) []byte {
	t.Helper()
	w, err := entry.NewWriter()
	require.NoError(t, err)
	d, err := w.Draft(key, img, saved)
	require.NoError(t, err)
	var sent blocks
	size, err := d.Write(t.Context(), &sent)
	require.NoError(t, err)
	require.Len(t, sent.data, d.Blocks())
	require.Zero(t, sent.out, "each buffer is handed over or given back")
	data := sent.join()
	require.Len(t, data, int(size))
	return data
}

// theirs is img's entry as actions/cache makes it of a directory store: one stream, with what else lies there.
func theirs(t testing.TB, img image.Image) []byte {
	t.Helper()
	var archive, packed bytes.Buffer
	require.NoError(t, image.Encode(t.Context(), &archive, img))
	z, err := zstd.NewWriter(&packed)
	require.NoError(t, err)
	w := tar.NewWriter(z)
	for _, m := range []struct {
		tar.Header
		data []byte
	}{
		{tar.Header{Typeflag: tar.TypeDir, Name: entry.Path(key) + "/", Mode: 0o755}, nil},
		{tar.Header{Typeflag: tar.TypeReg, Name: entry.Path(key) + "/.image.tar-ABC", Mode: 0o644}, []byte("left behind")},
		{tar.Header{Typeflag: tar.TypeReg, Name: entry.Path(key) + "/image.tar", Mode: 0o644}, archive.Bytes()},
	} {
		m.Size, m.Format, m.ModTime, m.AccessTime = int64(len(m.data)), tar.FormatPAX, saved.Add(1), saved.Add(1)
		require.NoError(t, w.WriteHeader(&m.Header))
		_, err := w.Write(m.data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return packed.Bytes()
}

var makers = map[string]func(testing.TB, image.Image) []byte{"ours": ours, "theirs": theirs}

// memory is a Blob in memory that takes down what is read.
type memory struct {
	data []byte
	// spoil may change what is read at off, on the given try.
	spoil func(off int64, try int, data []byte) error

	mu   sync.Mutex
	gets int
	read int64
}

var errBroken = errors.New("broken")

func (m *memory) Size() int64 { return int64(len(m.data)) }

func (m *memory) Get(ctx context.Context, off int64, n int, buf []byte, check func([]byte) error) (err error) {
	for try := range 3 {
		m.mu.Lock()
		m.gets++
		m.read += int64(n)
		m.mu.Unlock()
		data := append(buf[:0], m.data[off:off+int64(n)]...)
		if m.spoil != nil {
			if err := m.spoil(off, try, data); err != nil {
				return err
			}
		}
		if err = check(data); err == nil {
			return nil
		}
	}
	return err
}

func (m *memory) prefix() []byte { return m.data[:min(len(m.data), entry.PrefixSize)] }

func newReader(t testing.TB) *entry.Reader {
	t.Helper()
	r, err := entry.NewReader(4)
	require.NoError(t, err)
	return r
}

// open opens what a memory holds.
func open(t testing.TB, m *memory) (image.Image, error) {
	t.Helper()
	return newReader(t).Open(t.Context(), m, m.prefix(), key)
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, o := range shapes {
		for from, write := range makers {
			t.Run(name+" of "+from, func(t *testing.T) {
				t.Parallel()
				img := imagetest.New(t, o)
				got, err := open(t, &memory{data: write(t, img)})
				require.NoError(t, err)
				require.NoError(t, got.Is(img.Reference(), img.Platform()))
				require.Equal(t, img.Root(), got.Root())
				require.Equal(t, img.Layers(), got.Layers())
				require.Equal(t, encoded(t, img), encoded(t, got), "in order")
				for i := len(img.Layers()) - 1; i >= 0; i-- {
					require.Equal(t, layer(t, img, i), layer(t, got, i), "backwards")
				}
			})
		}
	}
}

func encoded(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, image.Encode(t.Context(), &b, img))
	return b.Bytes()
}

func layer(t testing.TB, img image.Image, i int) []byte {
	t.Helper()
	rc, err := img.Layer(t.Context(), i)
	require.NoError(t, err)
	defer rc.Close()
	data, err := io.ReadAll(rc)
	require.NoError(t, err)
	return data
}

// What actions/cache/restore unpacks of an entry of ours is what a directory store wants to find.
func TestOursIsTheTarOfADirectoryStore(t *testing.T) {
	t.Parallel()
	img := large(t)
	z, err := zstd.NewReader(bytes.NewReader(ours(t, img)))
	require.NoError(t, err)
	defer z.Close()
	members := tar.NewReader(z)

	h, err := members.Next()
	require.NoError(t, err)
	require.Equal(t, ".pullonce/"+key+"/", h.Name)
	require.EqualValues(t, tar.TypeDir, h.Typeflag)
	require.EqualValues(t, 0o755, h.Mode)

	h, err = members.Next()
	require.NoError(t, err)
	require.Equal(t, ".pullonce/"+key+"/image.tar", h.Name)
	require.EqualValues(t, 0o644, h.Mode)
	require.True(t, h.ModTime.Equal(saved), "an entry's age is its archive's time: %s", h.ModTime)
	data, err := io.ReadAll(members)
	require.NoError(t, err)
	require.Equal(t, encoded(t, img), data)

	_, err = members.Next()
	require.Equal(t, io.EOF, err)
}

func TestAGenerationKeepsThePathOfItsKey(t *testing.T) {
	t.Parallel()
	require.Equal(t, ".pullonce/"+key, entry.Path(key))
	require.Equal(t, ".pullonce/"+key, entry.Path(store.Generation(key, 2)))
}

func TestTheHeadComesWithThePrefix(t *testing.T) {
	t.Parallel()
	for from, write := range makers {
		m := &memory{data: write(t, imagetest.New(t, imagetest.Options{Layers: 100, LayerSize: 5000, Index: true}))}
		_, err := open(t, m)
		require.NoError(t, err)
		require.Zero(t, m.gets, from)
	}
}

func TestALayerOfOursIsReadWithoutItsNeighbours(t *testing.T) {
	t.Parallel()
	img := large(t)
	m := &memory{data: ours(t, img)}
	got, err := open(t, m)
	require.NoError(t, err)
	require.Equal(t, layer(t, img, 2), layer(t, got, 2))
	require.Equal(t, 3, m.gets, "5 MiB in chunks of 2")
	require.InDelta(t, img.Layers()[2].Descriptor.Size, m.read, 4096)
}

func TestAStreamServesLayersInOrderOnce(t *testing.T) {
	t.Parallel()
	img := large(t)
	m := &memory{data: theirs(t, img)}
	got, err := open(t, m)
	require.NoError(t, err)
	require.Equal(t, encoded(t, img), encoded(t, got))
	require.Equal(t, int64(len(m.data)-entry.PrefixSize), m.read, "each byte once")
}

func TestLayersAreReadSideBySide(t *testing.T) {
	t.Parallel()
	for from, write := range makers {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			img := large(t)
			got, err := open(t, &memory{data: write(t, img)})
			require.NoError(t, err)
			// All are begun before one is finished, so that none may need what another holds.
			readers := make([]io.ReadCloser, len(img.Layers()))
			for i := range readers {
				readers[i], err = got.Layer(t.Context(), i)
				require.NoError(t, err)
				_, err = io.ReadFull(readers[i], make([]byte, 1))
				require.NoError(t, err)
			}
			var all sync.WaitGroup
			for i, rc := range readers {
				all.Go(func() {
					n, err := io.Copy(io.Discard, rc)
					if err != nil || n != img.Layers()[i].Descriptor.Size-1 {
						t.Errorf("layer %d: %d bytes, %v", i, n, err)
					}
					rc.Close()
				})
			}
			all.Wait()
		})
	}
}

func TestASpoiledFrameIsReadAgain(t *testing.T) {
	t.Parallel()
	img := large(t)
	m := &memory{data: ours(t, img), spoil: func(_ int64, try int, data []byte) error {
		if try == 0 {
			data[len(data)/2] ^= 1
		}
		return nil
	}}
	got, err := open(t, m)
	require.NoError(t, err)
	require.Equal(t, encoded(t, img), encoded(t, got))
}

func TestASpoiledFrameThatStaysSpoiledIsCorrupt(t *testing.T) {
	t.Parallel()
	m := &memory{data: ours(t, large(t))}
	m.data[len(m.data)/2] ^= 1
	got, err := open(t, m)
	require.NoError(t, err)
	require.ErrorIs(t, image.Verify(t.Context(), got), store.ErrCorrupt)
}

func TestAWrongByteIsFound(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Layers: 2, Index: true})
	r := newReader(t)
	for from, write := range makers {
		good := write(t, img)
		for i := 0; i < len(good); i += 11 {
			m := &memory{data: bytes.Clone(good)}
			m.data[i] ^= 0x10
			got, err := r.Open(t.Context(), m, m.prefix(), key)
			if err == nil {
				err = image.Verify(t.Context(), got)
			}
			if err == nil { // what is spoiled is nothing that anyone reads: zeros behind the archive, a time, a member beside it
				require.Equal(t, encoded(t, img), encoded(t, got), "%s, byte %d", from, i)
				continue
			}
			require.True(t, errors.Is(err, store.ErrCorrupt) || errors.Is(err, image.ErrVerify), "%s, byte %d: %v", from, i, err)
		}
	}
}

func TestACutEntryIsCorrupt(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Layers: 2})
	for from, write := range makers {
		good := write(t, img)
		for n := 0; n < len(good)-200; n += 7 {
			got, err := open(t, &memory{data: good[:n]})
			if err == nil {
				err = image.Verify(t.Context(), got)
			}
			require.True(t, errors.Is(err, store.ErrCorrupt) || errors.Is(err, image.ErrVerify), "%s, %d bytes: %v", from, n, err)
		}
	}
}

func TestAnErrorOfTheBlobIsNoCorruption(t *testing.T) {
	t.Parallel()
	img := large(t)
	for from, write := range makers {
		m := &memory{data: write(t, img), spoil: func(int64, int, []byte) error { return errBroken }}
		got, err := open(t, m)
		require.NoError(t, err)
		err = image.Verify(t.Context(), got)
		require.ErrorIs(t, err, errBroken, from)
		require.NotErrorIs(t, err, store.ErrCorrupt, from)
		require.NotErrorIs(t, err, image.ErrVerify, from)
	}
}

func TestAnEntryOfAnotherKeyIsCorrupt(t *testing.T) {
	t.Parallel()
	for from, write := range makers {
		m := &memory{data: write(t, imagetest.New(t, imagetest.Options{}))}
		_, err := newReader(t).Open(t.Context(), m, m.prefix(), key+"0")
		require.ErrorIs(t, err, store.ErrCorrupt, from)
	}
}

func TestReadsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	for from, write := range makers {
		m := &memory{data: write(t, large(t))}
		got, err := open(t, m)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		rc, err := got.Layer(ctx, 0)
		require.NoError(t, err)
		cancel()
		_, err = io.Copy(io.Discard, rc)
		require.ErrorIs(t, err, context.Canceled, from)
		require.NoError(t, rc.Close())
		require.NoError(t, image.Verify(t.Context(), got), "the image can still be read: "+from)
	}
}

func TestWhatIsNoEntryIsCorrupt(t *testing.T) {
	t.Parallel()
	var empty bytes.Buffer
	z, err := zstd.NewWriter(&empty)
	require.NoError(t, err)
	require.NoError(t, tar.NewWriter(z).Close())
	require.NoError(t, z.Close())
	for name, data := range map[string][]byte{
		"nothing":       nil,
		"text":          []byte("<!DOCTYPE html><html></html>"),
		"an empty tar":  empty.Bytes(),
		"half an index": ours(t, imagetest.New(t, imagetest.Options{}))[:20],
		"a huge index":  append([]byte{0x5e, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff}, "pullonce\x01\x00\x00\x00\xff\xff\xff\x1f"...),
	} {
		_, err := open(t, &memory{data: data})
		require.ErrorIs(t, err, store.ErrCorrupt, name)
	}
}

func FuzzOpen(f *testing.F) {
	img := imagetest.New(f, imagetest.Options{Layers: 2})
	for _, write := range makers {
		f.Add(write(f, img))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := open(t, &memory{data: data})
		if err == nil {
			err = image.Verify(t.Context(), got)
		}
		if err != nil && !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, image.ErrVerify) {
			t.Fatal(err)
		}
	})
}
