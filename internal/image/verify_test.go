package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
)

func describe(data string) ocispec.Descriptor {
	return ocispec.Descriptor{Digest: digest.FromString(data), Size: int64(len(data))}
}

func verifying(t *testing.T, r io.Reader, want ocispec.Descriptor) *verifier {
	t.Helper()
	return newVerifier(t.Context(), io.NopCloser(r), want, nil)
}

// readers are the ways in which an io.Reader may hand the same bytes over.
var readers = map[string]func(io.Reader) io.Reader{
	"plain":             func(r io.Reader) io.Reader { return r },
	"one byte":          iotest.OneByteReader,
	"half":              iotest.HalfReader,
	"EOF with data":     iotest.DataErrReader,
	"one byte, and EOF": func(r io.Reader) io.Reader { return iotest.DataErrReader(iotest.OneByteReader(r)) },
}

func TestVerifierHandsOnWhatIsRight(t *testing.T) {
	t.Parallel()
	for name, wrap := range readers {
		for _, data := range []string{"", "x", "xy", strings.Repeat("layer", 50_000)} {
			var got bytes.Buffer
			n, err := io.CopyBuffer(&got, struct{ io.Reader }{verifying(t, wrap(strings.NewReader(data)), describe(data))}, make([]byte, 700))
			require.NoError(t, err, name)
			require.EqualValues(t, len(data), n, name)
			require.Equal(t, data, got.String(), name)
			require.NoError(t, iotest.TestReader(verifying(t, wrap(strings.NewReader(data)), describe(data)), []byte(data)), name)
		}
	}
}

func TestVerifierKeepsTheLastByteOfWhatIsWrong(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("layer", 50_000)
	for _, test := range []struct{ name, have, want string }{
		{"nothing", "", "layer"},
		{"short by one", "laye", "layer"},
		{"short by many", long[:1000], long},
		{"long by one", "layers", "layer"},
		{"long by many", long + long, long},
		{"wrong first byte", "mayer", "layer"},
		{"wrong last byte", "layes", "layer"},
		{"wrong only byte", "x", "y"},
		{"not empty", "x", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for name, wrap := range readers {
				v := verifying(t, wrap(strings.NewReader(test.have)), describe(test.want))
				got, err := io.ReadAll(v)
				require.ErrorIs(t, err, ErrVerify, name)
				require.NotErrorIs(t, err, io.EOF, name)
				require.Less(t, len(got), max(1, len(test.want)), name)
				n, again := v.Read(make([]byte, 10))
				require.Zero(t, n, name)
				require.Equal(t, err, again, name)
			}
		})
	}
}

func TestVerifierHandsOnErrors(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset")
	for name, r := range map[string]io.Reader{
		"at once":           iotest.ErrReader(reset),
		"amid":              io.MultiReader(strings.NewReader("la"), iotest.ErrReader(reset)),
		"with bytes":        &together{[]byte("lay"), reset},
		"in place of last":  io.MultiReader(strings.NewReader("laye"), iotest.ErrReader(reset)),
		"with the last":     io.MultiReader(strings.NewReader("laye"), &together{[]byte("r"), reset}),
		"in place of EOF":   io.MultiReader(strings.NewReader("layer"), iotest.ErrReader(reset)),
		"broken connection": io.MultiReader(strings.NewReader("laye"), iotest.ErrReader(io.ErrUnexpectedEOF)),
	} {
		got, err := io.ReadAll(verifying(t, r, describe("layer")))
		if name == "broken connection" {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, name)
		} else {
			require.ErrorIs(t, err, reset, name)
		}
		require.NotErrorIs(t, err, ErrVerify, name)
		require.True(t, strings.HasPrefix("laye", string(got)), name)
	}
}

// together is a reader that returns its bytes and its error at once.
type together struct {
	data []byte
	err  error
}

func (r *together) Read(p []byte) (int, error) {
	n := copy(p, r.data)
	r.data = r.data[n:]
	if len(r.data) == 0 {
		return n, r.err
	}
	return n, nil
}

func TestVerifierEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	v := newVerifier(ctx, io.NopCloser(strings.NewReader("layer")), describe("layer"), nil)
	n, err := v.Read(make([]byte, 2))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	cancel()
	n, err = v.Read(make([]byte, 2))
	require.Zero(t, n)
	require.ErrorIs(t, err, context.Canceled)
}

func TestVerifierReadsNothingIntoNothing(t *testing.T) {
	t.Parallel()
	v := verifying(t, strings.NewReader("wrong"), describe("layer"))
	n, err := v.Read(nil)
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestHeaderOfALargeLayer(t *testing.T) {
	t.Parallel()
	name := blobName(digest.FromString("x"))
	for _, size := range []int64{0, 1, ustarMax - 1, ustarMax, MaxLayer} {
		h, err := header(name, size)
		require.NoError(t, err)
		require.Len(t, h, blockSize)
		got, err := tar.NewReader(bytes.NewReader(h)).Next()
		require.NoError(t, err)
		require.Equal(t, name, got.Name)
		require.Equal(t, size, got.Size)
		require.EqualValues(t, memberMode, got.Mode)
		require.Zero(t, got.ModTime.Unix())
	}
}
