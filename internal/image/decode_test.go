package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
)

func verifyArchive(t testing.TB, data []byte) (image.Image, error) {
	t.Helper()
	return image.VerifyArchive(t.Context(), bytes.NewReader(data), int64(len(data)))
}

func TestEveryFlippedByteIsSeen(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		options imagetest.Options
		stride  int
	}{
		{imagetest.Options{Index: true, LayerSize: 1}, 1},
		{imagetest.Options{Index: true, LayerSize: 1, Recompressed: true}, 17}, // unpacking takes its time
	} {
		data := encoded(t, imagetest.New(t, test.options))
		for i := 0; i < len(data); i += test.stride {
			data[i] ^= 1 << (i % 8)
			_, err := verifyArchive(t, data)
			require.ErrorIs(t, err, image.ErrVerify, "byte %d", i)
			data[i] ^= 1 << (i % 8)
		}
	}
}

func TestEveryTruncationIsSeen(t *testing.T) {
	t.Parallel()
	data := encoded(t, imagetest.New(t, imagetest.Options{Index: true, Layers: 2, LayerSize: 100}))
	for n := 0; n < len(data); n += 1 + n%29 {
		_, err := image.Decode(t.Context(), bytes.NewReader(data[:n]), int64(n))
		require.ErrorIs(t, err, image.ErrVerify, "%d bytes", n)
		// A file may shrink under its reader, so that the size is a lie.
		_, err = image.VerifyArchive(t.Context(), bytes.NewReader(data[:n]), int64(len(data)))
		require.ErrorIs(t, err, image.ErrVerify, "%d bytes", n)
	}
	for _, more := range []int{1, 511, 512, 1024, 10240} {
		_, err := verifyArchive(t, append(bytes.Clone(data), make([]byte, more)...))
		require.ErrorIs(t, err, image.ErrVerify, "%d bytes more", more)
	}
	_, err := image.Decode(t.Context(), bytes.NewReader(data), -1)
	require.ErrorIs(t, err, image.ErrVerify)
}

func TestHostileArchivesAreRefused(t *testing.T) {
	t.Parallel()
	data := encoded(t, imagetest.New(t, imagetest.Options{Index: true, Layers: 2}))
	rename := func(i int, name string) func([]member) []member {
		return func(all []member) []member { all[i].Name = name; return all }
	}
	become := func(i int, kind byte, target string) func([]member) []member {
		return func(all []member) []member {
			all[i].Typeflag, all[i].Linkname, all[i].Size, all[i].data = kind, target, 0, nil
			return all
		}
	}
	replace := func(i int, old, new string) func([]member) []member {
		return func(all []member) []member {
			before := string(all[i].data)
			all[i].data = []byte(strings.ReplaceAll(before, old, new))
			all[i].Size = int64(len(all[i].data))
			if string(all[i].data) == before {
				panic(fmt.Sprintf("%q is not in %s", old, before))
			}
			return all
		}
	}
	for name, spoil := range map[string]func([]member) []member{
		"parent folder":        rename(1, "../oci-layout"),
		"parent folder within": rename(4, "blobs/../../etc/passwd"),
		"absolute":             rename(1, "/etc/passwd"),
		"dot":                  rename(0, "./pullonce.json"),
		"folder":               become(1, tar.TypeDir, ""),
		"symbolic link":        become(4, tar.TypeSymlink, "/etc/passwd"),
		"hard link":            become(5, tar.TypeLink, "pullonce.json"),
		"link as layer":        become(7, tar.TypeSymlink, "/etc/passwd"),
		"device":               become(2, tar.TypeChar, ""),
		"pipe as layer":        become(8, tar.TypeFifo, ""),
		"duplicate":            func(all []member) []member { return slices.Insert(all, 5, all[4]) },
		"duplicate layer":      func(all []member) []member { return append(all, all[8]) },
		"another member": func(all []member) []member {
			return slices.Insert(all, 7, member{tar.Header{Name: "x", Mode: 0o644}, nil})
		},
		"member in front": func(all []member) []member {
			return slices.Insert(all, 0, member{tar.Header{Name: "x", Mode: 0o644}, nil})
		},
		"member missing":        func(all []member) []member { return slices.Delete(all, 3, 4) },
		"layer missing":         func(all []member) []member { return all[:8] },
		"order":                 func(all []member) []member { all[2], all[3] = all[3], all[2]; return all },
		"order of layers":       func(all []member) []member { all[7], all[8] = all[8], all[7]; return all },
		"another layer's bytes": func(all []member) []member { all[7].data, all[7].Size = all[8].data, all[8].Size; return all },
		"mode":                  func(all []member) []member { all[1].Mode = 0o777; return all },
		"owner":                 func(all []member) []member { all[1].Uname = "root"; return all },
		"GNU header":            func(all []member) []member { all[0].Format = tar.FormatGNU; return all },
		"PAX records": func(all []member) []member {
			all[0].PAXRecords = map[string]string{"comment": "x"}
			all[0].Format = tar.FormatPAX
			return all
		},
		"nothing":             func([]member) []member { return nil },
		"another name":        replace(2, "library/test:1", "library/evil:1"),
		"another docker name": replace(3, "library/test:1", "library/evil:1"),
		"another reference":   replace(0, "library/test:1", "library/evil:1"),
		"another platform":    replace(0, "amd64", "s390x"),
		"another format":      replace(0, `"formatVersion":1`, `"formatVersion":2`),
		"a later format":      replace(0, `"formatVersion":1`, `"formatVersion":3`),
		"a carrier":           replace(0, `"root"`, `"carrier":{"digest":"sha256:`+strings.Repeat("0", 64)+`","size":1},"root"`),
		"lying size":          replace(0, `"size":`, `"size":1`),
		"negative size":       replace(0, `"size":`, `"size":-`),
		"white space":         replace(0, `{`, `{ `),
		"upper case key":      replace(0, `"root"`, `"Root"`),
		"unknown field":       replace(0, `"platform"`, `"x":1,"platform"`),
		"no JSON":             replace(0, `{`, ``),
		"no digest":           replace(0, `sha256:`, ``),
		"path as digest":      replace(0, `sha256:`, `sha256:../../../../`),
		"two descriptors":     replace(2, `"manifests":[`, `"manifests":[{"mediaType":"x","digest":"sha256:","size":1},`),
		"changed root":        replace(4, `"schemaVersion":2`, `"schemaVersion":2 `),
		"changed manifest":    replace(5, `"schemaVersion":2`, `"schemaVersion":2 `),
		"changed config":      replace(6, `"os":"linux"`, `"os":"linux" `),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := verifyArchive(t, pack(t, spoil(members(t, data))))
			require.ErrorIs(t, err, image.ErrVerify)
		})
	}
	got, err := verifyArchive(t, pack(t, members(t, data)))
	require.NoError(t, err, "what is not spoiled is read")
	require.Equal(t, data, encoded(t, got))
}

func pack(t testing.TB, all []member) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, m := range all {
		require.NoError(t, tw.WriteHeader(&m.Header))
		_, err := tw.Write(m.data)
		require.NoError(t, err)
	}
	require.NoError(t, tw.Close())
	return b.Bytes()
}

// counter is an io.ReaderAt that tells how it was used.
type counter struct {
	io.ReaderAt
	reads, bytes int
}

func (c *counter) ReadAt(p []byte, off int64) (int, error) {
	c.reads++
	c.bytes += len(p)
	return c.ReaderAt.ReadAt(p, off)
}

func TestDecodeReadsOnePrefix(t *testing.T) {
	t.Parallel()
	data := encoded(t, imagetest.New(t, imagetest.Options{Layers: 3, LayerSize: 1 << 20}))
	r := &counter{ReaderAt: bytes.NewReader(data)}
	_, err := image.Decode(t.Context(), r, int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, 1, r.reads)
	require.LessOrEqual(t, r.bytes, 256<<10)
}

func TestDecodeReadsLargeDocuments(t *testing.T) {
	t.Parallel()
	p := remade(t, imagetest.Parts(t, imagetest.Options{Layers: 2}), func(_ *ocispec.Manifest, c *ocispec.Image) {
		c.Author = strings.Repeat("many authors ", 100_000)
	})
	img, err := image.New(p)
	require.NoError(t, err)
	got, err := verifyArchive(t, encoded(t, img))
	require.NoError(t, err)
	require.Equal(t, img.Config(), got.Config())
}

// A header may claim any size. What is read for it stays bounded, whatever the archive's own size is said to be.
func TestDecodeIsBounded(t *testing.T) {
	t.Parallel()
	for _, claim := range []int64{1 << 20, 1<<20 + 1, 1 << 32, 8<<30 - 1} {
		var head bytes.Buffer
		require.NoError(t, tar.NewWriter(&head).WriteHeader(&tar.Header{Name: "pullonce.json", Mode: 0o644, Size: claim, Format: tar.FormatUSTAR}))
		r := &counter{ReaderAt: &endless{head.Bytes()}}
		_, err := image.Decode(t.Context(), r, 1<<40)
		require.ErrorIs(t, err, image.ErrVerify)
		require.LessOrEqual(t, r.bytes, 2<<20)
	}
}

// endless is its data and zeros behind it.
type endless struct{ data []byte }

func (e *endless) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off < int64(len(e.data)) {
		copy(p, e.data[off:])
	}
	return len(p), nil
}

// A reader that fails says nothing of what the archive holds: a store must not call the entry corrupt.
func TestReadErrorsAreNoVerdict(t *testing.T) {
	t.Parallel()
	data := encoded(t, imagetest.New(t, imagetest.Options{Layers: 3, LayerSize: 300_000}))
	for _, err := range []error{errBroken, io.ErrUnexpectedEOF} {
		for _, at := range []int64{0, 1000, 300_000, int64(len(data)) - 600, int64(len(data)) - 1} {
			_, got := image.VerifyArchive(t.Context(), &failing{bytes.NewReader(data), at, err}, int64(len(data)))
			require.ErrorIs(t, got, err)
			require.NotErrorIs(t, got, image.ErrVerify)
		}
	}
}

// failing fails with err at an offset.
type failing struct {
	r   io.ReaderAt
	at  int64
	err error
}

func (f *failing) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) <= f.at {
		return f.r.ReadAt(p, off)
	}
	n, _ := f.r.ReadAt(p[:max(0, f.at-off)], off)
	return n, f.err
}

func TestLayersAreReadByRangeWhereThatIsThere(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Layers: 3, Repeat: true})
	data := encoded(t, img)
	r := &ranger{Reader: bytes.NewReader(data)}
	got, err := image.Decode(t.Context(), r, int64(len(data)))
	require.NoError(t, err)
	require.Empty(t, r.ranges)
	require.NoError(t, image.Verify(t.Context(), got))
	require.Len(t, r.ranges, 3)
	require.Equal(t, img.Layers()[2].Descriptor.Size+512, r.ranges[2])
	require.Zero(t, r.open)

	r.err = errors.New("gone")
	require.ErrorIs(t, image.Verify(t.Context(), got), r.err)
}

// ranger is an image.Ranger that counts.
type ranger struct {
	*bytes.Reader
	ranges []int64
	open   int
	err    error
}

func (r *ranger) Range(_ context.Context, off, n int64) (io.ReadCloser, error) {
	if r.err != nil {
		return nil, r.err
	}
	r.ranges = append(r.ranges, n)
	r.open++
	return &rangeBody{io.NewSectionReader(r.Reader, off, n), r}, nil
}

type rangeBody struct {
	io.Reader
	r *ranger
}

func (b *rangeBody) Close() error { b.r.open--; return nil }

func TestLayersAreReadConcurrently(t *testing.T) {
	t.Parallel()
	img, err := verifyArchive(t, encoded(t, imagetest.New(t, imagetest.Options{Layers: 4, LayerSize: 100_000})))
	require.NoError(t, err)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { errs[i] = image.Verify(t.Context(), img) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}
