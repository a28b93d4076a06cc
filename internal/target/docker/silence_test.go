package docker_test

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/docker"
)

// limit is short beside a minute, which is what the other limits of a test are.
const limit = 300 * time.Millisecond

func TestADaemonThatHangsIsAnErrorThatNamesItAndTheLimit(t *testing.T) {
	t.Parallel()
	const silent = `Docker at unix://\S+ did not answer within 300ms: see the daemon's log`
	for name, test := range map[string]struct {
		hangs func(call string) bool
		want  string
	}{
		"on inspect": {func(call string) bool { return strings.HasSuffix(call, "/json") && call != "GET /images/json" },
			`looking at docker.io/library/test:1: ` + silent},
		"on tag":               {func(call string) bool { return strings.Contains(call, "/tag ") }, `tagging it: ` + silent},
		"on tag and on remove": {func(call string) bool { return strings.Contains(call, "/tag ") || strings.HasPrefix(call, "DELETE") }, `tagging it: ` + silent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, false)
			e.hangs, e.limits.Call = test.hangs, limit
			_, err := e.target().Load(t.Context(), newImage(t, imagetest.Options{}))
			require.Regexp(t, regexp.MustCompile(`^loading test:1 into Docker: `+test.want+`$`), err.Error())
			require.NotErrorIs(t, err, target.ErrUnavailable)
		})
	}
}

func TestADaemonThatHangsOnTheListIsSentEverything(t *testing.T) {
	t.Parallel()
	e := newEngine(t, false)
	e.hangs, e.limits.Call = func(call string) bool { return call == "GET /images/json" }, limit
	result, err := e.target().Load(t.Context(), newImage(t, imagetest.Options{}))
	require.NoError(t, err)
	require.Equal(t, target.Loaded, result.Outcome)
}

func TestADaemonThatStopsDuringALoadEndsTheLoad(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limits docker.Limits
		load   func(w http.ResponseWriter, body io.Reader)
		want   string
	}{
		"takes nothing": {
			docker.Limits{Stall: limit},
			func(http.ResponseWriter, io.Reader) {},
			"took no byte of the image within 300ms",
		},
		"takes a part": {
			docker.Limits{Stall: limit},
			func(_ http.ResponseWriter, body io.Reader) { _, _ = io.CopyN(io.Discard, body, 1<<20) },
			"took no byte of the image within 300ms",
		},
		"takes all and says nothing": {
			docker.Limits{Quiet: limit},
			func(_ http.ResponseWriter, body io.Reader) { _, _ = io.Copy(io.Discard, body) },
			"did not say that it has loaded the image within 300ms",
		},
		"takes all and says a little": {
			docker.Limits{Quiet: limit},
			func(w http.ResponseWriter, body io.Reader) {
				_, _ = io.Copy(io.Discard, body)
				_, _ = io.WriteString(w, `{"status":"unpacking"}`)
				_ = http.NewResponseController(w).Flush()
			},
			"did not say that it has loaded the image within 300ms",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, false)
			e.limits, e.way = test.limits, docker.Archive
			ctx := t.Context()
			e.load = func(w http.ResponseWriter, body io.Reader) bool {
				test.load(w, body)
				select { // until the test is over, or the target has hung up
				case <-ctx.Done():
				case <-time.After(3 * limit):
				}
				return true
			}
			_, err := e.target().Load(ctx, newImage(t, imagetest.Options{LayerSize: 8 << 20}))
			require.Regexp(t, `^loading test:1 into Docker: after \d+ bytes of an image of \d+: Docker at unix://\S+ `+test.want+`: see the daemon's log$`, err.Error())
			require.NotErrorIs(t, err, context.Canceled)
			require.Empty(t, e.names)
		})
	}
}

// A registry that is slow is not the daemon's silence.
func TestASlowSourceIsNoSilenceOfTheDaemon(t *testing.T) {
	t.Parallel()
	parts := imagetest.Parts(t, imagetest.Options{Index: true, Layers: 2})
	blobs := parts.Source.(imagetest.Blobs)
	parts.Source = imagetest.Source(func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
		<-time.After(3 * limit)
		return blobs.Blob(ctx, d)
	})
	img, err := image.New(parts)
	require.NoError(t, err)
	e := newEngine(t, false)
	e.limits = docker.Limits{Stall: limit}
	_, err = e.target().Load(t.Context(), img)
	require.NoError(t, err)
}
