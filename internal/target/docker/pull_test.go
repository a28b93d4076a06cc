package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/docker"
)

// large is the size of a layer of which two make an image worth a pull.
func large(containerd bool) int {
	if containerd {
		return 9 << 20
	}
	return 1_100_000
}

// layerBytes is the size of img's layers.
func layerBytes(img image.Image) (n int64) {
	for _, l := range img.Layers() {
		n += l.Descriptor.Size
	}
	return n
}

// contentBytes is the size of what img's layers unpack to, which is what a classic store is given.
func contentBytes(t *testing.T, img image.Image) (n int64) {
	t.Helper()
	for i := range img.Layers() {
		content, err := img.Content(t.Context(), i)
		require.NoError(t, err)
		size, err := io.Copy(io.Discard, content)
		require.NoError(t, err)
		require.NoError(t, content.Close())
		n += size
	}
	return n
}

func TestPull(t *testing.T) {
	t.Parallel()
	const inspect, drop = "GET /images/" + tag + "/json", "DELETE /images/PULL@new.manifest"
	tests := map[string]struct {
		containerd bool
		plain      bool // no index
		options    imagetest.Options
		want       target.Result // Sent is 1 for the layers, and 2 where the documents went after them
		calls      []string
		names      map[string]string
	}{
		"classic": {
			want: target.Result{Outcome: target.Loaded, Sent: 1},
			calls: []string{
				inspect, "GET /images/new.config/json", "POST /images/create", "GET /images/new.config/json",
				inspect, "POST /images/new.config/tag " + tag, inspect, "DELETE /images/PULL@new.plain",
			},
			names: map[string]string{tag: "new.config"},
		},
		"classic, recompressed": {
			options: imagetest.Options{Recompressed: true},
			want:    target.Result{Outcome: target.Loaded, Sent: 1},
			calls: []string{
				inspect, "GET /images/new.config/json", "POST /images/create", "GET /images/new.config/json",
				inspect, "POST /images/new.config/tag " + tag, inspect, "DELETE /images/PULL@new.carrier",
			},
			names: map[string]string{tag: "new.config"},
		},
		"containerd": {
			containerd: true,
			want:       target.Result{Outcome: target.Loaded, Sent: 2},
			calls: []string{
				inspect, "GET /images/new.root/json", "GET /images/new.manifest/json", "POST /images/create", "POST /images/load",
				"GET /images/new.root/json", inspect, "POST /images/new.root/tag " + tag, inspect, drop,
			},
			names: map[string]string{tag: "new.root"},
		},
		"containerd, no index": {
			containerd: true,
			plain:      true,
			want:       target.Result{Outcome: target.Loaded, Sent: 1},
			calls: []string{
				inspect, "GET /images/new.root/json", "POST /images/create", "GET /images/new.root/json",
				inspect, "POST /images/new.root/tag " + tag, inspect, "DELETE /images/PULL@new.root",
			},
			names: map[string]string{tag: "new.root"},
		},
		"containerd, digest alone": {
			containerd: true,
			options:    imagetest.Options{ByDigest: true},
			want:       target.Result{Outcome: target.Loaded, Sent: 2},
			calls: []string{
				"GET /images/" + byRoot + "/json", "GET /images/new.root/json", "POST /images/create", "POST /images/load",
				"GET /images/" + byRoot + "/json", drop,
			},
			names: map[string]string{byRoot: "new.root"},
		},
		"containerd, recompressed": {
			containerd: true,
			options:    imagetest.Options{Recompressed: true},
			want:       target.Result{Outcome: target.Loaded, Sent: 2},
			calls: []string{
				inspect, "GET /images/new.root/json", "GET /images/new.manifest/json", "POST /images/create", "POST /images/load",
				"GET /images/new.root/json", inspect, "POST /images/new.root/tag " + tag, inspect, "DELETE /images/PULL@new.carrier",
			},
			names: map[string]string{tag: "new.root"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.options.Index, test.options.Layers, test.options.LayerSize = !test.plain, 2, 100_000
			img := imagetest.New(t, test.options)
			e := newEngine(t, test.containerd)
			e.way, e.readsZstd = docker.Pull, true
			e.label("new", img)
			got, err := e.target().Load(t.Context(), img)
			require.NoError(t, err)
			layers := layerBytes(img)
			if !test.containerd && !img.Recompressed() {
				layers = contentBytes(t, img)
			}
			require.GreaterOrEqual(t, got.Sent, layers)
			require.Less(t, got.Sent, layers+20_000)
			got.Sent = 1 + min(1, got.Sent-layers)
			require.Equal(t, test.want, got)
			require.Equal(t, test.calls, e.takeCalls())
			require.Equal(t, test.names, e.allNames())
			for id := range e.images {
				if name := e.labelled(id); name == "new.manifest" || name == "new.carrier" {
					t.Errorf("%s is left behind", name)
				}
			}
			got, err = e.target().Load(t.Context(), img)
			require.NoError(t, err)
			require.Equal(t, target.Result{Outcome: target.Present}, got)
		})
	}
}

// allNames are all names, labelled.
func (e *engine) allNames() map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := map[string]string{}
	for name, id := range e.names {
		names[e.labelled(name)] = e.labelled(id)
	}
	return names
}

func TestWhenToPull(t *testing.T) {
	t.Parallel()
	const pull, load = "POST /images/create", "POST /images/load"
	zstd := func(p *image.Parts) {
		p.Manifest = bytes.ReplaceAll(p.Manifest, []byte("tar+gzip"), []byte("tar+zstd"))
		p.Root = p.Manifest
	}
	for name, test := range map[string]struct {
		containerd bool
		way        docker.Way
		options    imagetest.Options
		change     func(*image.Parts)
		given      func(e *engine, img image.Image)
		want       []string
	}{
		"large":                {options: imagetest.Options{LayerSize: large(false)}, want: []string{pull}},
		"large, as an archive": {options: imagetest.Options{LayerSize: large(false)}, way: docker.Archive, want: []string{load}},
		"small":                {want: []string{load}},
		"small, pulled":        {way: docker.Pull, want: []string{pull}},
		"classic, by digest":   {options: imagetest.Options{LayerSize: large(false), ByDigest: true}, want: []string{load}},
		"zstd, too old":        {options: imagetest.Options{LayerSize: large(false)}, change: zstd, want: []string{load}},
		"the base is there": {
			options: imagetest.Options{LayerSize: large(false), Layers: 4},
			given: func(e *engine, _ image.Image) {
				e.hold(imagetest.New(e.t, imagetest.Options{Layers: 2, LayerSize: large(false)}), other)
			},
			want: []string{load},
		},
		"a little of it is there": {
			options: imagetest.Options{LayerSize: large(false), Layers: 8},
			given: func(e *engine, _ image.Image) {
				e.hold(imagetest.New(e.t, imagetest.Options{Layers: 1, LayerSize: large(false)}), other)
			},
			want: []string{pull},
		},
		"all layers are there": {
			options: imagetest.Options{LayerSize: large(false), Layers: 2},
			given: func(e *engine, _ image.Image) {
				e.hold(imagetest.New(e.t, imagetest.Options{Layers: 3, LayerSize: large(false)}), other)
			},
			want: []string{load},
		},
		"containerd, large":   {containerd: true, options: imagetest.Options{LayerSize: large(true)}, want: []string{pull}},
		"containerd, smaller": {containerd: true, options: imagetest.Options{LayerSize: large(false)}, want: []string{load}},
		"broken": {
			containerd: true,
			options:    imagetest.Options{LayerSize: large(true)},
			given:      func(e *engine, img image.Image) { e.hold(img, tag).unpacked = false },
			want:       []string{load},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.options.Layers == 0 {
				test.options.Layers = 2
			}
			parts := imagetest.Parts(t, test.options)
			if test.change != nil {
				test.change(&parts)
			}
			img, err := image.New(parts)
			require.NoError(t, err)
			e := newEngine(t, test.containerd)
			e.way = test.way
			if test.given != nil {
				test.given(e, img)
			}
			_, err = e.target().Load(t.Context(), img)
			require.NoError(t, err)
			require.Equal(t, test.want, e.takeTransfers())
		})
	}
}

// A classic store that has the base from a pull gets the rest in another, and no layer a second time.
func TestABaseThatWasPulledIsNotPulledAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		layers       int
		recompressed bool
		want         []string
	}{
		"much is left":       {layers: 5, want: []string{"POST /images/create"}},
		"in zstd":            {layers: 5, recompressed: true, want: []string{"POST /images/create"}},
		"hardly any is":      {layers: 4, want: []string{"POST /images/load"}},
		"another form of it": {layers: 5, want: []string{"POST /images/load"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, false)
			e.apiVersion = "1.42" // reads zstd
			d := e.target()
			base := imagetest.Options{Layers: 3, LayerSize: large(false), Recompressed: test.recompressed || name == "another form of it"}
			_, err := d.Load(t.Context(), imagetest.New(t, base))
			require.NoError(t, err)
			require.Equal(t, []string{"POST /images/create"}, e.takeTransfers())

			img := imagetest.New(t, imagetest.Options{Reference: "other:1", Layers: test.layers, LayerSize: large(false), Recompressed: test.recompressed})
			result, err := d.Load(t.Context(), img)
			require.NoError(t, err)
			require.Equal(t, target.Loaded, result.Outcome)
			require.Equal(t, test.want, e.takeTransfers())
			require.Less(t, result.Sent, contentBytes(t, img)/2, "the layers of the base were left out")
		})
	}
}

// A layer in xz is none that is served unpacked; the daemon unpacks it from an archive.
func TestLayersInXzAreSentAsTheyAre(t *testing.T) {
	t.Parallel()
	parts := imagetest.Parts(t, imagetest.Options{Layers: 3, LayerSize: large(false)})
	var manifest ocispec.Manifest
	require.NoError(t, json.Unmarshal(parts.Manifest, &manifest))
	blob := append([]byte("\xfd7zXZ\x00"), make([]byte, 1000)...)
	manifest.Layers[1].Digest, manifest.Layers[1].Size = digest.FromBytes(blob), int64(len(blob))
	parts.Source.(imagetest.Blobs)[manifest.Layers[1].Digest] = blob
	var err error
	parts.Manifest, err = json.Marshal(manifest)
	require.NoError(t, err)
	parts.Root = parts.Manifest
	parts.Reference = reference.MustParse("test:1")
	img, err := image.New(parts)
	require.NoError(t, err)
	e := newEngine(t, false)
	_, err = e.target().Load(t.Context(), img)
	require.NoError(t, err)
	require.Equal(t, []string{"POST /images/create", "POST /images/load"}, e.takeTransfers())
}

// A daemon says of each layer when it is unpacked; what it says of others is nothing.
func TestAPullTellsWhatIsUnpacked(t *testing.T) {
	t.Parallel()
	for _, containerd := range []bool{false, true} {
		e := newEngine(t, containerd)
		img := imagetest.New(t, imagetest.Options{Layers: 3, LayerSize: large(containerd)})
		e.pull = func(w http.ResponseWriter, r *http.Request, p puller) bool {
			for _, l := range []int{0, 2} {
				id := img.Layers()[l].Descriptor.Digest.Encoded()[:12]
				reply(w, map[string]string{"status": "Downloading", "id": id})
				reply(w, map[string]string{"status": "Pull complete", "id": id})
			}
			reply(w, map[string]string{"status": "Pull complete"})
			reply(w, map[string]string{"status": "Pull complete", "id": "ffffffffffff"})
			require.NoError(t, e.pulled(r.Context(), p, r.FormValue("fromImage")+"@"+p.digest))
			return true
		}
		var told []int
		d := e.target()
		_, err := d.LoadTelling(t.Context(), img, func(layers int) { told = append(told, layers) })
		require.NoError(t, err)
		require.Equal(t, []int{1, 3}, told)
		require.Equal(t, containerd, d.Twice(t.Context()))
	}
}

// takeTransfers are the calls since the last time that bring an image.
func (e *engine) takeTransfers() []string {
	var transfers []string
	for _, call := range e.takeCalls() {
		if call == "POST /images/create" || call == "POST /images/load" {
			transfers = append(transfers, call)
		}
	}
	return transfers
}

func TestADaemonThatDoesNotReachUsIsSentArchivesFromThenOn(t *testing.T) {
	t.Parallel()
	for name, pull := range map[string]func(w http.ResponseWriter, r *http.Request){
		"refused": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"errorDetail":{"message":"dial tcp 127.0.0.1:1: connect: connection refused"}}`)
		},
		"not allowed": func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusForbidden, "authorization denied by plugin")
		},
		"silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		for _, containerd := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, containerd: %t", name, containerd), func(t *testing.T) {
				t.Parallel()
				e := newEngine(t, containerd)
				e.limits.Contact = limit
				e.pull = func(w http.ResponseWriter, r *http.Request, _ puller) bool {
					pull(w, r)
					return true
				}
				d := e.target()
				img := newImage(t, imagetest.Options{LayerSize: large(containerd)})
				result, err := d.Load(t.Context(), img)
				require.NoError(t, err)
				require.Equal(t, target.Loaded, result.Outcome)
				require.Equal(t, []string{"POST /images/create", "POST /images/load"}, e.takeTransfers())

				_, err = d.Load(t.Context(), imagetest.New(t, imagetest.Options{Layers: 2, LayerSize: large(containerd), Seed: 50}))
				require.NoError(t, err)
				require.Equal(t, []string{"POST /images/load"}, e.takeTransfers(), "once is enough")
			})
		}
	}
}

func TestFailedPulls(t *testing.T) {
	t.Parallel()
	// says has the engine ask for the manifest, and then say something.
	says := func(status int, text string) func(e *engine) {
		return func(e *engine) {
			e.pull = func(w http.ResponseWriter, r *http.Request, p puller) bool {
				_, err := p.get(r.Context(), "manifests", p.digest)
				require.NoError(e.t, err)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, text)
				return true
			}
		}
	}
	for name, test := range map[string]struct {
		containerd bool
		given      func(e *engine)
		want       string // "" is success, with the archive
		alone      string // what the pull alone says
	}{
		"an error in the stream": {
			given: says(200, `{"status":"Pulling"}{"errorDetail":{"message":"no"},"error":"no"}`),
			alone: "the daemon says: no",
		},
		"a download that another program began": {
			given: says(200, `{"status":"Downloading","id":"0123456789ab"}{"status":"Retrying in 5 seconds","id":"0123456789ab"}`),
			alone: "the daemon waits for another program's download of a layer, which broke",
		},
		"a refusal":                 {given: says(500, `{"message":"no"}`), alone: "the daemon says: no"},
		"success without the image": {given: says(200, `{"status":"done"}`), alone: "the daemon reported success, but new.config: there is no such image"},
		"an image in part": {
			containerd: true,
			given: func(e *engine) {
				e.pull = func(w http.ResponseWriter, r *http.Request, p puller) bool {
					_, err := p.get(r.Context(), "manifests", p.digest)
					require.NoError(e.t, err)
					e.mu.Lock()
					defer e.mu.Unlock()
					e.images[p.digest] = &held{manifest: p.digest, unpacked: true}
					e.names[temporaryName(r)] = p.digest
					reply(w, map[string]string{"status": "done"})
					return true
				}
			},
			alone: "manifest MANIFEST is incomplete: layers are missing",
		},
		"no space": {
			given: says(200, `{"error":"write /x: no space left on device"}`),
			want: "the daemon says: write /x: no space left on device (free space where Docker keeps its data: " +
				"a load takes the archive and the unpacked image at once)",
		},
		"an answer that breaks off": {
			given: says(200, `{"status":"Pull`),
			want:  "after 0 bytes of an image of WHOLE: the connection to the daemon broke, in the middle of its answer",
		},
		"a message without end": {
			given: says(200, `{"status":"`+strings.Repeat("x", 2<<20)),
			want:  "after 0 bytes of an image of WHOLE: its answer broke off: unexpected EOF",
		},
	} {
		for _, way := range []docker.Way{docker.Best, docker.Pull} {
			t.Run(fmt.Sprintf("%s, way %d", name, way), func(t *testing.T) {
				t.Parallel()
				img, old := imagetest.New(t, imagetest.Options{Layers: 2, LayerSize: large(test.containerd)}), oldImage(t)
				e := newEngine(t, test.containerd)
				e.label("new", img)
				e.label("old", old)
				e.hold(old, tag)
				e.way = way
				test.given(e)
				_, err := e.target().Load(t.Context(), img)
				want := test.want
				if way == docker.Pull && want == "" {
					want = test.alone
				}
				if want == "" {
					require.NoError(t, err)
					require.Equal(t, map[string]string{tag: e.labelled(e.id(img))}, e.allNames())
					return
				}
				want = strings.NewReplacer("MANIFEST", img.Manifest().Digest.Encoded()[:12], "WHOLE", fmt.Sprint(img.Size())).Replace(want)
				require.EqualError(t, err, "loading test:1 into Docker: "+unlabelled(e, want))
				require.NotErrorIs(t, err, target.ErrUnavailable)
				require.Equal(t, map[string]string{tag: e.labelled(e.id(old))}, e.allNames())
				require.NotContains(t, e.images, e.id(img))
				require.NotContains(t, e.takeTransfers(), "POST /images/load")
			})
		}
	}
}

// temporaryName is the name that a pull asks for.
func temporaryName(r *http.Request) string {
	return r.FormValue("fromImage") + "@" + r.FormValue("tag")
}

func TestANameThatIsRefusedAfterAPullLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, containerd := range []bool{false, true} {
		img, old := newImage(t, imagetest.Options{LayerSize: large(containerd)}), oldImage(t)
		e := newEngine(t, containerd)
		e.label("old", old)
		e.hold(old, tag)
		e.tag = func(string, string) error { return errors.New("not today") }
		_, err := e.target().Load(t.Context(), img)
		require.ErrorContains(t, err, "tagging it: the daemon says: not today")
		require.Equal(t, []string{"POST /images/create"}, e.takeTransfers()[:1])
		require.Equal(t, map[string]string{tag: e.labelled(e.id(old))}, e.allNames())
		require.Len(t, e.images, 1)
	}
}

func TestBrokenSourceEndsThePull(t *testing.T) {
	t.Parallel()
	for name, test := range brokenLayers() {
		for _, containerd := range []bool{false, true} {
			for _, persists := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, containerd: %t, a daemon that tries again: %t", name, containerd, persists), func(t *testing.T) {
					t.Parallel()
					img := test.image(t, large(containerd))
					e := newEngine(t, containerd)
					old := oldImage(t)
					e.hold(old, tag)
					if persists {
						e.pull = func(_ http.ResponseWriter, r *http.Request, p puller) bool {
							for range 10 {
								require.Error(t, e.pulled(r.Context(), p, "x"))
							}
							<-r.Context().Done()
							return true
						}
					}
					_, err := e.target().Load(t.Context(), img)
					require.ErrorIs(t, err, test.want)
					require.ErrorIs(t, err, image.ErrRead)
					require.NotErrorIs(t, err, context.Canceled)
					transfers := []string{"POST /images/create"}
					if containerd && errors.Is(err, image.ErrVerify) {
						transfers = append(transfers, "POST /images/load") // of an image without layers, to be rid of what there is
					}
					require.Equal(t, transfers, e.takeTransfers())
					require.Equal(t, map[string]string{tag: e.id(old)}, e.names)
					require.Len(t, e.images, 1)
				})
			}
		}
	}
}

func TestCancelledPullNamesNothing(t *testing.T) {
	t.Parallel()
	for _, containerd := range []bool{false, true} {
		parts := imagetest.Parts(t, imagetest.Options{Layers: 2, LayerSize: large(containerd)})
		blobs := parts.Source.(imagetest.Blobs)
		ctx, cancel := context.WithCancel(t.Context())
		parts.Source = imagetest.Source(func(_ context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
			cancel()
			return blobs.Blob(t.Context(), d)
		})
		img, err := image.New(parts)
		require.NoError(t, err)
		e := newEngine(t, containerd)
		_, err = e.target().Load(ctx, img)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, target.ErrUnavailable)
		require.NotErrorIs(t, err, image.ErrRead)
		require.Empty(t, e.names)
		require.Equal(t, []string{"POST /images/create"}, e.takeTransfers())
	}
}

func TestDaemonKilledDuringAPull(t *testing.T) {
	t.Parallel()
	img := newImage(t, imagetest.Options{LayerSize: large(false)})
	e := newEngine(t, false)
	e.pull = func(w http.ResponseWriter, r *http.Request, p puller) bool {
		rc, err := p.open(r.Context(), "blobs", img.Layers()[0].DiffID.String())
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, rc, 100_000)
		require.NoError(t, err)
		require.NoError(t, rc.Close())
		conn, _, err := http.NewResponseController(w).Hijack()
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		return true
	}
	_, err := e.target().Load(t.Context(), img)
	require.NotErrorIs(t, err, target.ErrUnavailable)
	require.Regexp(t, `^loading test:1 into Docker: after \d+ bytes of an image of 2\d{6}: the connection to the daemon broke: .+$`, err.Error())
	require.Equal(t, []string{"POST /images/create"}, e.takeTransfers())
}

func TestADaemonThatStopsDuringAPullEndsThePull(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	img := newImage(t, imagetest.Options{LayerSize: size})
	blob := img.Layers()[0].DiffID.String()
	for name, test := range map[string]struct {
		limits docker.Limits
		pull   func(ctx context.Context, w http.ResponseWriter, p puller) error
		want   string
	}{
		"asks for the manifest alone": {
			docker.Limits{Quiet: limit},
			func(ctx context.Context, _ http.ResponseWriter, p puller) error {
				_, err := p.get(ctx, "manifests", p.digest)
				return err
			},
			"did not say that it has loaded the image within 300ms",
		},
		"takes a part of a layer": {
			docker.Limits{Stall: limit},
			func(ctx context.Context, _ http.ResponseWriter, p puller) error {
				rc, err := p.open(ctx, "blobs", blob)
				if err == nil {
					_, err = io.CopyN(io.Discard, rc, 1<<20)
				}
				return err
			},
			"took no byte of the image within 300ms",
		},
		"takes a layer and says nothing": {
			docker.Limits{Quiet: limit},
			func(ctx context.Context, _ http.ResponseWriter, p puller) error {
				_, err := p.get(ctx, "blobs", blob)
				return err
			},
			"did not say that it has loaded the image within 300ms",
		},
		"takes a layer and says a little": {
			docker.Limits{Quiet: limit},
			func(ctx context.Context, w http.ResponseWriter, p puller) error {
				_, err := p.get(ctx, "blobs", blob)
				_, _ = io.WriteString(w, `{"status":"Extracting"}`)
				_ = http.NewResponseController(w).Flush() // the target may have hung up by now
				return err
			},
			"did not say that it has loaded the image within 300ms",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, false)
			e.limits = test.limits
			e.pull = func(w http.ResponseWriter, r *http.Request, p puller) bool {
				if err := test.pull(r.Context(), w, p); err != nil {
					t.Errorf("pulling: %v", err)
				}
				<-r.Context().Done()
				return true
			}
			_, err := e.target().Load(t.Context(), img)
			require.Regexp(t, `^loading test:1 into Docker: after \d+ bytes of an image of \d+: Docker at unix://\S+ `+test.want+`: see the daemon's log$`, err.Error())
			require.Empty(t, e.names)
			require.Equal(t, []string{"POST /images/create"}, e.takeTransfers())
		})
	}
}

// A store that is slow is not the daemon's silence.
func TestASlowSourceOfAPullIsNoSilenceOfTheDaemon(t *testing.T) {
	t.Parallel()
	parts := imagetest.Parts(t, imagetest.Options{Layers: 2, LayerSize: large(false)})
	blobs := parts.Source.(imagetest.Blobs)
	parts.Source = imagetest.Source(func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
		<-time.After(3 * limit)
		return blobs.Blob(ctx, d)
	})
	img, err := image.New(parts)
	require.NoError(t, err)
	e := newEngine(t, false)
	e.limits = docker.Limits{Stall: limit, Quiet: limit, Contact: limit}
	_, err = e.target().Load(t.Context(), img)
	require.NoError(t, err)
	require.Equal(t, []string{"POST /images/create"}, e.takeTransfers())
}

// Those who read an image together read a layer at a time, in order, whichever the daemon asks for first.
func TestAPullOpensOneLayerAtATime(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var order []string
	open := 0
	img := imagetest.New(t, imagetest.Options{Layers: 6, LayerSize: large(false)}).Via(func(s image.Source) image.Source {
		return imagetest.Source(func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, d.Digest.String())
			if open++; open > 1 {
				t.Errorf("%d layers are open", open)
			}
			rc, err := s.Blob(ctx, d)
			return closing{rc, func() { mu.Lock(); defer mu.Unlock(); open-- }}, err
		})
	})
	e := newEngine(t, false)
	_, err := e.target().Load(t.Context(), img)
	require.NoError(t, err)
	require.Len(t, order, 6)
	require.Zero(t, open)
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
