package loopback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/target/loopback"
)

const layerSize = 300_000

// serve serves img until the test ends.
func serve(t *testing.T, img image.Image, o loopback.Options) *loopback.Registry {
	t.Helper()
	r, err := loopback.Serve(t.Context(), img, o)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// base is the URL of the repository that a reference is in.
func base(reference string) string {
	name, _, _ := strings.Cut(reference, "@")
	host, repository, _ := strings.Cut(name, "/")
	return "http://" + host + "/v2/" + repository
}

// ask sends one request on a connection of its own.
func ask(ctx context.Context, method, url string, header ...string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Close = true
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	return http.DefaultTransport.RoundTrip(request)
}

// answer is a whole answer.
func answer(t *testing.T, method, url string, header ...string) (*http.Response, []byte) {
	t.Helper()
	response, err := ask(t.Context(), method, url, header...)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, body
}

func TestAPullGetsTheManifestOfTheLayersAtHand(t *testing.T) {
	t.Parallel()
	for _, recompressed := range []bool{false, true} {
		t.Run(fmt.Sprint(recompressed), func(t *testing.T) {
			t.Parallel()
			img := imagetest.New(t, imagetest.Options{Index: true, Layers: 3, LayerSize: layerSize, Recompressed: recompressed})
			r := serve(t, img, loopback.Options{})
			require.Regexp(t, `^127\.0\.0\.1:\d+/[a-z2-7]{26}@`+img.Carrier().Digest.String()+`$`, r.Reference())
			require.False(t, r.Asked())

			response, body := answer(t, http.MethodGet, base(r.Reference())+"/manifests/"+img.Carrier().Digest.String())
			require.Equal(t, http.StatusOK, response.StatusCode)
			require.Equal(t, img.Carrier().MediaType, response.Header.Get("Content-Type"))
			require.Equal(t, img.Carrier().Data, body)
			require.True(t, r.Asked())

			var sent int64
			_, body = answer(t, http.MethodGet, base(r.Reference())+"/blobs/"+img.Config().Digest.String())
			require.Equal(t, img.Config().Data, body)
			for _, l := range img.Layers() {
				response, body = answer(t, http.MethodGet, base(r.Reference())+"/blobs/"+l.Descriptor.Digest.String())
				require.Equal(t, l.Descriptor.Size, response.ContentLength)
				require.Equal(t, l.Descriptor.Digest, digest.FromBytes(body))
				sent += l.Descriptor.Size
			}
			require.Equal(t, sent, r.Sent())
		})
	}
}

func TestWhatIsNotServed(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Index: true})
	r := serve(t, img, loopback.Options{})
	mine := base(r.Reference())
	host, name, _ := strings.Cut(strings.TrimPrefix(mine, "http://"), "/v2/")
	other := "http://" + host
	manifest, layer := img.Carrier().Digest.String(), img.Layers()[0].Descriptor.Digest.String()
	for _, test := range []struct {
		method, url string
		status      int
		asked       bool
	}{
		{http.MethodGet, other + "/", http.StatusNotFound, false},
		{http.MethodGet, other + "/v2/_catalog", http.StatusNotFound, false},
		{http.MethodGet, other + "/v2/" + name[:25] + "/manifests/" + manifest, http.StatusNotFound, false},
		{http.MethodGet, other + "/v2/library/test/manifests/" + manifest, http.StatusNotFound, false},
		{http.MethodGet, other + "/v2//blobs/" + layer, http.StatusNotFound, false},
		{http.MethodGet, other + "/v2/", http.StatusOK, false},
		{http.MethodPut, mine + "/manifests/1", http.StatusMethodNotAllowed, false},
		{http.MethodPost, mine + "/blobs/uploads/", http.StatusMethodNotAllowed, false},
		{http.MethodGet, mine + "/manifests/1", http.StatusNotFound, true},
		{http.MethodGet, mine + "/manifests/" + layer, http.StatusNotFound, true},
		{http.MethodGet, mine + "/blobs/" + manifest, http.StatusNotFound, true},
		{http.MethodGet, mine + "/blobs/../blobs/" + layer, http.StatusNotFound, true},
		{http.MethodGet, mine + "/tags/list", http.StatusNotFound, true},
	} {
		response, body := answer(t, test.method, test.url)
		require.Equal(t, test.status, response.StatusCode, test.url)
		require.Equal(t, test.asked, r.Asked(), test.url)
		require.NotContains(t, string(body), name, test.url)
	}
	require.Zero(t, r.Sent())
	again := serve(t, img, loopback.Options{})
	require.NotContains(t, again.Reference(), name, "every name is new")
}

func TestHeadAndRanges(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{LayerSize: layerSize})
	r := serve(t, img, loopback.Options{})
	d := img.Layers()[0].Descriptor
	url := base(r.Reference()) + "/blobs/" + d.Digest.String()
	_, whole := answer(t, http.MethodGet, url)
	for header, from := range map[string]int64{
		"": 0, "bytes=0-": 0, "bytes=1-": 1, "bytes=200000-": 200_000, fmt.Sprintf("bytes=%d-", d.Size-1): d.Size - 1,
	} {
		for _, method := range []string{http.MethodHead, http.MethodGet} {
			response, body := answer(t, method, url, "Range", header)
			status, contentRange := http.StatusPartialContent, fmt.Sprintf("bytes %d-%d/%d", from, d.Size-1, d.Size)
			if header == "" {
				status, contentRange = http.StatusOK, ""
			}
			require.Equal(t, status, response.StatusCode, header)
			require.Equal(t, contentRange, response.Header.Get("Content-Range"))
			require.Equal(t, d.Size-from, response.ContentLength)
			if method == http.MethodGet {
				require.Equal(t, whole[from:], body, header)
			}
		}
	}
	for _, header := range []string{"bytes=5-9", "bytes=-5", "bytes=x-", "bytes=-5-", "lines=5-", fmt.Sprintf("bytes=%d-", d.Size)} {
		response, body := answer(t, http.MethodGet, url, "Range", header)
		require.Equal(t, http.StatusOK, response.StatusCode, header)
		require.Equal(t, whole, body, header)
	}
	response, body := answer(t, http.MethodHead, base(r.Reference())+"/manifests/"+img.Carrier().Digest.String())
	require.EqualValues(t, len(img.Carrier().Data), response.ContentLength)
	require.Equal(t, img.Carrier().Digest.String(), response.Header.Get("Docker-Content-Digest"))
	require.Empty(t, body)
}

// failures records what a registry reports.
type failures struct {
	mu   sync.Mutex
	list []error
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, err)
}

func (f *failures) all() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list
}

func TestALayerThatCannotBeReadIsAnAbortedConnectionAndReportedOnce(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection reset")
	for name, test := range map[string]struct {
		spoil func(good []byte) (io.ReadCloser, error)
		want  error
		text  string
	}{
		"a flipped bit": {func(good []byte) (io.ReadCloser, error) {
			good[100] ^= 1
			return io.NopCloser(strings.NewReader(string(good))), nil
		}, image.ErrVerify, ""},
		"cut short": {func(good []byte) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(string(good[:200_000]))), nil
		}, image.ErrVerify, ""},
		"not to be had": {func([]byte) (io.ReadCloser, error) { return nil, refused }, refused, ""},
		"a panic":       {func([]byte) (io.ReadCloser, error) { panic("a bug") }, image.ErrRead, "panicked: a bug"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			img := imagetest.New(t, imagetest.Options{Layers: 2, LayerSize: layerSize}).Via(func(s image.Source) image.Source {
				return imagetest.Source(func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
					rc, err := s.Blob(ctx, d)
					require.NoError(t, err)
					good, err := io.ReadAll(rc)
					require.NoError(t, err)
					return test.spoil(good)
				})
			})
			var told failures
			r := serve(t, img, loopback.Options{Fail: told.add})
			blob := base(r.Reference()) + "/blobs/" + img.Layers()[0].Descriptor.Digest.String()
			response, err := ask(t.Context(), http.MethodGet, blob)
			require.NoError(t, err)
			got, err := io.ReadAll(response.Body)
			require.Error(t, err, "no clean end")
			require.NoError(t, response.Body.Close())
			require.Less(t, len(got), int(img.Layers()[0].Descriptor.Size))
			require.Len(t, told.all(), 1)
			require.ErrorIs(t, told.all()[0], test.want)
			require.ErrorIs(t, told.all()[0], image.ErrRead)
			require.ErrorContains(t, told.all()[0], test.text)

			for _, url := range []string{blob, base(r.Reference()) + "/manifests/" + img.Carrier().Digest.String()} {
				response, body := answer(t, http.MethodGet, url)
				require.Equal(t, http.StatusForbidden, response.StatusCode, "there is nothing to try again")
				require.Contains(t, string(body), "DENIED")
			}
			require.Len(t, told.all(), 1)
		})
	}
}

// Several layers may be asked for at once. One is read at a time, the lowest first, and all have their header at once.
func TestLayersAreReadOneAtATimeTheLowestFirst(t *testing.T) {
	t.Parallel()
	const layers = 5
	var mu sync.Mutex
	var order []digest.Digest
	open := 0
	asked := make(chan struct{})
	img := imagetest.New(t, imagetest.Options{Layers: layers, LayerSize: layerSize}).Via(func(s image.Source) image.Source {
		return imagetest.Source(func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
			<-asked
			mu.Lock()
			defer mu.Unlock()
			order = append(order, d.Digest)
			open++
			if open != 1 {
				t.Errorf("%d blobs are open", open)
			}
			rc, err := s.Blob(ctx, d)
			return closing{rc, func() { mu.Lock(); open--; mu.Unlock() }}, err
		})
	})
	r := serve(t, img, loopback.Options{})
	responses := make([]*http.Response, layers)
	for i := range slices.Backward(responses) {
		response, err := ask(t.Context(), http.MethodGet, base(r.Reference())+"/blobs/"+img.Layers()[i].Descriptor.Digest.String())
		require.NoError(t, err)
		responses[i] = response
	}
	close(asked)
	var reads errgroup.Group
	for i := range layers {
		reads.Go(func() error {
			_, err := io.Copy(io.Discard, responses[i].Body)
			return errors.Join(err, responses[i].Body.Close())
		})
	}
	require.NoError(t, reads.Wait())
	mu.Lock()
	defer mu.Unlock()
	var read []int
	for _, d := range order {
		read = append(read, indexOf(img, d))
	}
	require.Len(t, read, layers)
	require.IsIncreasing(t, read[1:], "%v: one was begun before all were asked for", read)
}

type closing struct {
	io.ReadCloser
	closed func()
}

// Close implements io.Closer.
func (c closing) Close() error {
	c.closed()
	return c.ReadCloser.Close()
}

func indexOf(img image.Image, d digest.Digest) int {
	return slices.IndexFunc(img.Layers(), func(l image.Layer) bool { return l.Descriptor.Digest == d })
}

func TestAClientThatGoesAwayIsNobodysFailure(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	wasClosed := sync.OnceFunc(func() { close(closed) })
	img := imagetest.New(t, imagetest.Options{LayerSize: 8 << 20}).Via(func(s image.Source) image.Source {
		return imagetest.Source(func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
			rc, err := s.Blob(ctx, d)
			return closing{rc, wasClosed}, err
		})
	})
	var told failures
	r := serve(t, img, loopback.Options{Fail: told.add})
	url := base(r.Reference()) + "/blobs/" + img.Layers()[0].Descriptor.Digest.String()
	response, err := ask(t.Context(), http.MethodGet, url)
	require.NoError(t, err)
	_, err = io.ReadFull(response.Body, make([]byte, 1000))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	<-closed
	response, body := answer(t, http.MethodGet, url)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Len(t, body, int(img.Layers()[0].Descriptor.Size))
	require.Empty(t, told.all())
}

func TestTwoClientsGetTheSame(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Layers: 3, LayerSize: layerSize, Repeat: true})
	r := serve(t, img, loopback.Options{})
	var clients errgroup.Group
	for range 2 {
		for _, l := range img.Layers() {
			clients.Go(func() error {
				response, err := ask(t.Context(), http.MethodGet, base(r.Reference())+"/blobs/"+l.Descriptor.Digest.String())
				if err != nil {
					return err
				}
				defer response.Body.Close()
				got, err := digest.FromReader(response.Body)
				if err == nil && got != l.Descriptor.Digest {
					err = fmt.Errorf("got %s for %s", got, l.Descriptor.Digest)
				}
				return err
			})
		}
	}
	require.NoError(t, clients.Wait())
}

// Close ends what is read and what waits for its turn, and nothing is read once it has returned.
func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	reading, ended := make(chan struct{}), false
	img := imagetest.New(t, imagetest.Options{Layers: 2}).Via(func(image.Source) image.Source {
		return imagetest.Source(func(ctx context.Context, _ ocispec.Descriptor) (io.ReadCloser, error) {
			close(reading)
			<-ctx.Done()
			ended = true
			return nil, ctx.Err()
		})
	})
	var told failures
	r, err := loopback.Serve(t.Context(), img, loopback.Options{Fail: told.add})
	require.NoError(t, err)
	var responses []*http.Response
	for _, l := range img.Layers() {
		response, err := ask(t.Context(), http.MethodGet, base(r.Reference())+"/blobs/"+l.Descriptor.Digest.String())
		require.NoError(t, err)
		responses = append(responses, response)
	}
	<-reading
	r.Close()
	require.True(t, ended)
	for _, response := range responses {
		_, err := io.ReadAll(response.Body)
		require.Error(t, err)
		require.NoError(t, response.Body.Close())
	}
	require.Empty(t, told.all())
	_, err = ask(t.Context(), http.MethodGet, base(r.Reference())+"/manifests/"+img.Carrier().Digest.String())
	require.Error(t, err)
	r.Close()
}

// Whoever waits for the pull is told when a layer is written, and when that is done.
func TestLayerWrapsWhatIsWritten(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Layers: 2, LayerSize: layerSize})
	var events []string
	r := serve(t, img, loopback.Options{Layer: func(w io.Writer) io.WriteCloser {
		events = append(events, "open")
		return struct {
			io.Writer
			io.Closer
		}{w, closer(func() { events = append(events, "close") })}
	}})
	for _, l := range img.Layers() {
		answer(t, http.MethodHead, base(r.Reference())+"/blobs/"+l.Descriptor.Digest.String())
		answer(t, http.MethodGet, base(r.Reference())+"/blobs/"+l.Descriptor.Digest.String())
	}
	r.Close()
	require.Equal(t, []string{"open", "close", "open", "close"}, events)
}

type closer func()

// Close implements io.Closer.
func (c closer) Close() error {
	c()
	return nil
}

// announced is a source that notes what it is told will be read.
type announced struct {
	image.Source
	layers chan []ocispec.Descriptor
}

// Announce implements image.Announcer.
func (a announced) Announce(blobs []ocispec.Descriptor) { a.layers <- blobs }

// A source that reads ahead from one layer into the next is told which is the next.
func TestTheSourceIsToldWhatIsReadNext(t *testing.T) {
	t.Parallel()
	layers := make(chan []ocispec.Descriptor, 2)
	img := imagetest.New(t, imagetest.Options{Layers: 2, LayerSize: layerSize}).Via(func(s image.Source) image.Source { return announced{s, layers} })
	r := serve(t, img, loopback.Options{})
	for _, l := range img.Layers() {
		answer(t, http.MethodGet, base(r.Reference())+"/blobs/"+l.Descriptor.Digest.String())
		require.Equal(t, []ocispec.Descriptor{l.Descriptor}, <-layers)
	}
}

// A daemon that keeps no packed layers is given what they unpack to, by the digests that the config has for it.
func TestPlainServesContents(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Index: true, Layers: 2, LayerSize: layerSize})
	r := serve(t, img, loopback.Options{Plain: true})
	_, name, _ := strings.Cut(r.Reference(), "@")
	response, body := answer(t, http.MethodGet, base(r.Reference())+"/manifests/"+name)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, name, digest.FromBytes(body).String())
	var manifest ocispec.Manifest
	require.NoError(t, json.Unmarshal(body, &manifest))
	require.Equal(t, img.Config().Digest, manifest.Config.Digest)
	require.Len(t, manifest.Layers, 2)
	var sent int64
	for i, l := range manifest.Layers {
		require.Equal(t, img.Layers()[i].DiffID, l.Digest)
		require.Equal(t, ocispec.MediaTypeImageLayer, l.MediaType)
		response, body = answer(t, http.MethodGet, base(r.Reference())+"/blobs/"+l.Digest.String(), "Range", "bytes=5-")
		require.Equal(t, http.StatusOK, response.StatusCode, "there are no ranges of what is made on the way")
		require.EqualValues(t, -1, response.ContentLength)
		require.Equal(t, l.Digest, digest.FromBytes(body))
		sent += int64(len(body))
		response, _ = answer(t, http.MethodGet, base(r.Reference())+"/blobs/"+img.Layers()[i].Descriptor.Digest.String())
		require.Equal(t, http.StatusNotFound, response.StatusCode, "the packed layer is not served")
	}
	require.Equal(t, sent, r.Sent())
}
