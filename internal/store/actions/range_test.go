package actions

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/retry"
	"github.com/pullonce/pullonce/internal/store/actions/entry"
)

type answering func(*http.Request) (*http.Response, error)

func (f answering) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A range that is not the one asked for is another try's business, whatever its numbers are.
func TestOnlyTheRangeAskedForIsTaken(t *testing.T) {
	t.Parallel()
	const off, n = 6, 4
	for header, want := range map[string]string{
		"bytes 6-9/20":                    "data",
		"bytes 6-9/10":                    "data",
		"bytes 6-7/8":                     "da",
		"bytes 6-1/3":                     "",
		"bytes 6-5/20":                    "",
		"bytes 6-9/9":                     "",
		"bytes 6-8/20":                    "",
		"bytes 6-10/20":                   "",
		"bytes 5-8/20":                    "",
		"bytes 6--9/20":                   "",
		"bytes 6-9/-20":                   "",
		"bytes 6-9223372036854775807/0":   "",
		"bytes 6-9/9999999999999999999":   "",
		"bytes -6-9/20":                   "",
		"bytes */20":                      "",
		"6-9/20":                          "",
		"bytes 6-9/*":                     "",
		"bytes 6-9223372036854775806/7\n": "",
	} {
		t.Run(header, func(t *testing.T) {
			t.Parallel()
			s := storage{transport: answering(func(req *http.Request) (*http.Response, error) {
				return &http.Response{
					StatusCode: http.StatusPartialContent, Header: http.Header{"Content-Range": {header}},
					Body: io.NopCloser(strings.NewReader("data")), Request: req,
				}, nil
			})}
			got, _, err := s.get(t.Context(), "https://blob.test/c/b?sig=x", off, n, nil)
			require.Equal(t, want, string(got))
			if want != "" {
				require.NoError(t, err)
				return
			}
			var f *fault
			require.ErrorAs(t, err, &f)
			require.Equal(t, retry.Transient, f.class)
			require.ErrorContains(t, err, fmt.Sprintf("another range came: %q", strings.TrimSpace(header)))
		})
	}
}

// making is a draft that makes so many blocks.
type making int

func (m making) Blocks() int { return int(m) }

func (m making) Write(ctx context.Context, to entry.Blocks) (int64, error) {
	for i := range int(m) {
		block, err := to.Room(ctx)
		if err != nil {
			return 0, err
		}
		if err := to.Block(i, append(block, 'x')); err != nil {
			return 0, err
		}
	}
	return int64(m), nil
}

func TestAPanicWhileABlockIsSentIsAnError(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 9; n++ {
		s := storage{buffers: newBuffers(2), transport: answering(func(*http.Request) (*http.Response, error) { panic("a bug") })}
		_, err := s.prepare(t.Context(), making(n)).finish(t.Context(), "https://blob.test/c/b?sig=x")
		require.ErrorContains(t, err, "sending a block panicked: a bug")
		require.Len(t, s.buffers, 2, "no buffer is lost")
	}
}

func TestAnUploadThatIsAbandonedGivesItsMemoryBack(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 9; n++ {
		s := storage{buffers: newBuffers(2), transport: answering(func(*http.Request) (*http.Response, error) { panic("it was sent") })}
		s.prepare(t.Context(), making(n)).abandon(errExists)
		require.Len(t, s.buffers, 2)
	}
}
