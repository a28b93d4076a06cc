package docker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/target"
)

func TestFailedLoads(t *testing.T) {
	t.Parallel()
	// answering has the engine read a load and say something else than it should; with a keep it keeps the image so.
	answering := func(e *engine, answer string, keep *held) {
		e.load = func(w http.ResponseWriter, body io.Reader) bool {
			got, err := readArchive(body)
			require.NoError(e.t, err)
			if keep != nil {
				e.mu.Lock()
				e.images[got.root] = keep
				e.mu.Unlock()
			}
			_, _ = io.WriteString(w, answer)
			return true
		}
	}
	tests := map[string]struct {
		containerd bool
		given      func(e *engine, img image.Image)
		want       string
		sent       bool
	}{
		"success without the image": {
			given: func(e *engine, _ image.Image) { answering(e, `{"stream":"Loaded image: test:1\n"}`, nil) },
			want:  "the daemon reported success, but new.config: there is no such image",
			sent:  true,
		},
		"an error in the stream": {
			given: func(e *engine, _ image.Image) {
				answering(e, `{"status":"Loading"}{"errorDetail":{"message":"write /x: no space left on device"},"error":"write /x"}`, nil)
			},
			want: "the daemon says: write /x: no space left on device (free space where Docker keeps its data: " +
				"a load takes the archive and the unpacked image at once)",
			sent: true,
		},
		"an error in the stream's old field": {
			given: func(e *engine, _ image.Image) { answering(e, `{"error":"bad\n::warning::\u001b[2J"}`, nil) },
			want:  "the daemon says: bad ::warning::\uFFFD[2J",
			sent:  true,
		},
		"an error while unpacking": {
			containerd: true,
			given: func(e *engine, img image.Image) {
				answering(e, `{"stream":"Loaded image ID: sha256:1\n"}{"stream":"Error unpacking image sha256:1: unexpected EOF\n"}`,
					&held{manifest: img.Manifest().Digest.String(), available: true})
			},
			want: "the daemon says: Error unpacking image sha256:1: unexpected EOF",
			sent: true,
		},
		"a layer that is not there": {
			containerd: true,
			given: func(e *engine, img image.Image) {
				answering(e, `{"stream":"Loaded image ID: sha256:1\n"}`, &held{manifest: img.Manifest().Digest.String()})
			},
			want: "manifest MANIFEST is incomplete: layers are missing",
			sent: true,
		},
		"not unpacked": {
			containerd: true,
			given: func(e *engine, img image.Image) {
				answering(e, `{"stream":"Loaded image ID: sha256:1\n"}`, &held{manifest: img.Manifest().Digest.String(), available: true})
			},
			want: "manifest MANIFEST is incomplete: it is not unpacked",
			sent: true,
		},
		"an answer that breaks off": {
			given: func(e *engine, _ image.Image) { answering(e, `{"status":"Load`, nil) },
			want:  "after SIZE bytes of an image of WHOLE: the connection to the daemon broke, in the middle of its answer",
			sent:  true,
		},
		"an answer without end": {
			given: func(e *engine, _ image.Image) { answering(e, strings.Repeat(`{"status":"x"}`, 1<<17), nil) },
			want:  "after SIZE bytes of an image of WHOLE: its answer broke off: unexpected EOF",
			sent:  true,
		},
		"a refusal": {
			given: func(e *engine, _ image.Image) {
				e.load = func(w http.ResponseWriter, _ io.Reader) bool {
					refuse(w, http.StatusInternalServerError, strings.Repeat("long ", 1000)+"end")
					return true
				}
			},
			want: "the daemon says: " + strings.Repeat("long ", 40) + " … " + strings.Repeat("g long ", 1) + strings.Repeat("long ", 37) + "long end",
		},
		"a tag that is refused": {
			given: func(e *engine, _ image.Image) {
				e.tag = func(string, string) error { return errors.New("not today") }
			},
			want: "tagging it: the daemon says: not today",
			sent: true,
		},
		"a tag that is forgotten": {
			given: func(e *engine, _ image.Image) {
				e.tag = func(string, string) error { return nil }
				e.forget = true
			},
			want: "the load was done, but " + tag + ": there is no such image",
			sent: true,
		},
	}
	for name, test := range tests {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, another image before: %t", name, before), func(t *testing.T) {
				t.Parallel()
				img, old := newImage(t, imagetest.Options{LayerSize: 5000}), oldImage(t)
				e := newEngine(t, test.containerd)
				e.label("new", img)
				e.label("old", old)
				was := ""
				if before {
					e.hold(old, tag)
					was = e.labelled(e.id(old))
				}
				test.given(e, img)
				d := e.target()
				result, err := d.Load(t.Context(), img)
				require.NotErrorIs(t, err, target.ErrUnavailable)
				unnamed, unnamedErr := img.Unnamed()
				require.NoError(t, unnamedErr)
				want := strings.NewReplacer("MANIFEST", img.Manifest().Digest.Encoded()[:12],
					"SIZE", fmt.Sprint(image.EncodedSize(unnamed)), "WHOLE", fmt.Sprint(img.Size())).Replace(test.want)
				require.EqualError(t, err, "loading test:1 into Docker: "+unlabelled(e, want))
				if test.sent {
					require.Equal(t, target.Result{Sent: image.EncodedSize(unnamed)}, result)
				}
				require.Equal(t, was, e.named(tag))
				require.NotContains(t, e.images, e.id(img), "nothing of the image is left")
			})
		}
	}
}

func unlabelled(e *engine, s string) string {
	for i := 0; i < len(e.labels); i += 2 {
		s = strings.ReplaceAll(s, e.labels[i+1], e.labels[i])
	}
	return s
}

// brokenLayer is a way in which a layer can't be read, and what that must come to.
type brokenLayer struct {
	want error
	give func(good []byte) (io.ReadCloser, error)
}

func brokenLayers() map[string]brokenLayer {
	refused := errors.New("connection reset")
	return map[string]brokenLayer{
		"wrong bytes": {image.ErrVerify, func(good []byte) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(strings.Repeat("x", len(good)))), nil
		}},
		"cut short": {image.ErrVerify, func(good []byte) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(string(good[:len(good)/2]))), nil
		}},
		"not to be had": {refused, func([]byte) (io.ReadCloser, error) { return nil, refused }},
		"a panic":       {image.ErrRead, func([]byte) (io.ReadCloser, error) { panic("a bug") }},
	}
}

// image is one whose last of three layers, of that size each, is broken.
func (b brokenLayer) image(t *testing.T, size int) image.Image {
	t.Helper()
	parts := imagetest.Parts(t, imagetest.Options{Layers: 3, LayerSize: size})
	blobs := parts.Source.(imagetest.Blobs)
	last := image.Layer{}
	parts.Source = imagetest.Source(func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
		if d.Digest == last.Descriptor.Digest {
			return b.give(blobs[d.Digest])
		}
		return blobs.Blob(ctx, d)
	})
	img, err := image.New(parts)
	require.NoError(t, err)
	last = img.Layers()[2]
	return img
}

func TestBrokenSourceAbortsTheLoad(t *testing.T) {
	t.Parallel()
	for name, test := range brokenLayers() {
		for _, containerd := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, containerd: %t", name, containerd), func(t *testing.T) {
				t.Parallel()
				img := test.image(t, 100_000)
				e := newEngine(t, containerd)
				old := oldImage(t)
				e.hold(old, tag)
				served := make(chan struct{})
				e.load = func(_ http.ResponseWriter, body io.Reader) bool {
					defer close(served)
					_, err := io.Copy(io.Discard, body)
					require.Error(t, err, "the daemon must not see a clean end")
					return true
				}
				_, err := e.target().Load(t.Context(), img)
				require.ErrorIs(t, err, test.want)
				require.NotErrorIs(t, err, context.Canceled)
				<-served
				require.Equal(t, e.id(old), e.named(tag))
			})
		}
	}
}

func TestCancelledLoadNamesNothing(t *testing.T) {
	t.Parallel()
	parts := imagetest.Parts(t, imagetest.Options{Layers: 2, LayerSize: 100_000})
	blobs := parts.Source.(imagetest.Blobs)
	ctx, cancel := context.WithCancel(t.Context())
	parts.Source = imagetest.Source(func(_ context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
		cancel()
		return blobs.Blob(t.Context(), d)
	})
	img, err := image.New(parts)
	require.NoError(t, err)
	e := newEngine(t, true)
	_, err = e.target().Load(ctx, img)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, target.ErrUnavailable)
	require.Empty(t, e.names)
}

func TestDaemonKilledDuringALoad(t *testing.T) {
	t.Parallel()
	img := newImage(t, imagetest.Options{LayerSize: 400_000})
	e := newEngine(t, false)
	e.load = func(w http.ResponseWriter, body io.Reader) bool {
		_, err := io.CopyN(io.Discard, body, 100_000)
		require.NoError(t, err)
		conn, _, err := http.NewResponseController(w).Hijack()
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		return true
	}
	_, err := e.target().Load(t.Context(), img)
	require.NotErrorIs(t, err, target.ErrUnavailable)
	require.Regexp(t, `^loading test:1 into Docker: after \d+ bytes of an image of 8\d{5}: the connection to the daemon broke: .+$`, err.Error())
	require.NotContains(t, err.Error(), "\n")
}

func TestOldEngineIsSentNoRecompressedLayers(t *testing.T) {
	t.Parallel()
	e := newEngine(t, false)
	_, err := e.target().Load(t.Context(), newImage(t, imagetest.Options{Recompressed: true}))
	require.ErrorIs(t, err, target.ErrRecompressed)
	require.EqualError(t, err, "loading test:1 into Docker: no layers recompressed with zstd: Docker 99.1 is too old for them, 23.0 or later is needed")
	require.Empty(t, e.images)

	e = newEngine(t, false)
	_, err = e.target().Load(t.Context(), newImage(t, imagetest.Options{}))
	require.NoError(t, err)
	result, err := e.target().Load(t.Context(), newImage(t, imagetest.Options{Recompressed: true}))
	require.NoError(t, err)
	require.Equal(t, target.Present, result.Outcome, "what is there need not be read")

	e = newEngine(t, false)
	e.readsZstd = true
	result, err = e.target().Load(t.Context(), newImage(t, imagetest.Options{Recompressed: true}))
	require.NoError(t, err)
	require.Equal(t, target.Loaded, result.Outcome, "what is no Docker may be able to")
}

func TestOldEngineAndZstd(t *testing.T) {
	t.Parallel()
	parts := imagetest.Parts(t, imagetest.Options{})
	parts.Manifest = bytes.ReplaceAll(parts.Manifest, []byte("tar+gzip"), []byte("tar+zstd"))
	parts.Root = parts.Manifest
	img, err := image.New(parts)
	require.NoError(t, err)
	for version, want := range map[string]string{
		"1.41": "loading test:1 into Docker: the daemon says: invalid tar header " +
			"(its layers are zstd, which Docker 99.1 is too old for: 23.0 or later is needed)",
		"1.42": "loading test:1 into Docker: the daemon says: invalid tar header",
	} {
		e := newEngine(t, false)
		e.apiVersion = version
		e.load = func(w http.ResponseWriter, body io.Reader) bool {
			_, err := readArchive(body)
			require.NoError(t, err)
			_, err = io.WriteString(w, `{"error":"invalid tar header"}`)
			require.NoError(t, err)
			return true
		}
		_, err = e.target().Load(t.Context(), img)
		require.EqualError(t, err, want)
	}
}
