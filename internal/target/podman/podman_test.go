package podman_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/command/commandtest"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/podman"
)

const (
	tag   = "docker.io/library/test:1"
	other = "docker.io/library/other:9"
)

// fake plays podman: it keeps ids, their names and the roots that they were loaded with.
type fake struct {
	t      *testing.T
	runner *commandtest.Runner
	names  map[string]string   // to the id
	roots  map[string][]string // of ids
	labels []string
	// loaded, if set, is told of each load, once it is done, and fails it.
	loaded func(id string) error
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, runner: commandtest.New(t), names: map[string]string{}, roots: map[string][]string{}}
	f.runner.On("podman info --format json", commandtest.Says(`{"host":{"os":"linux","arch":"amd64","serviceIsRemote":false},"store":{"graphRoot":"`+t.TempDir()+`","imageCopyTmpDir":"/var/tmp"}}`))
	f.runner.On("podman image inspect --format {{.Id}} {{.Size}}", f.inspect)
	f.runner.On("podman load --quiet", f.load)
	f.runner.On("podman tag", func(args []string, _ []byte) (command.Output, error) {
		f.names[args[1]] = args[0]
		return command.Output{}, nil
	})
	f.runner.On("podman untag", func(args []string, _ []byte) (command.Output, error) {
		delete(f.names, args[1])
		return command.Output{}, nil
	})
	f.runner.On("podman rmi", func(args []string, _ []byte) (command.Output, error) {
		delete(f.roots, args[0])
		return command.Output{}, nil
	})
	return f
}

func (f *fake) target() *podman.Podman { return podman.New(podman.Options{Runner: f.runner}) }

// hold puts img there, with its root or, as from a docker archive, without.
func (f *fake) hold(img image.Image, root bool, names ...string) {
	id := img.Config().Digest.Encoded()
	f.roots[id] = []string{}
	if root {
		f.roots[id] = []string{img.Root().Digest.String()}
	}
	for _, name := range names {
		f.names[name] = id
	}
}

// label has img's id and root shown as NAME.id and NAME.root.
func (f *fake) label(name string, img image.Image) {
	f.labels = append(f.labels, img.Config().Digest.Encoded(), name+".id", img.Root().Digest.String(), name+".root")
}

func (f *fake) labelled(s string) string { return strings.NewReplacer(f.labels...).Replace(s) }

func (f *fake) inspect(args []string, _ []byte) (command.Output, error) {
	id := f.names[args[0]]
	if _, ok := f.roots[args[0]]; ok {
		id = args[0]
	}
	if repository, digest, ok := strings.Cut(args[0], "@"); ok {
		for name, of := range f.names {
			for _, root := range f.roots[of] {
				if root == digest && strings.HasPrefix(name, repository) {
					id = of
				}
			}
		}
	}
	if id == "" {
		return command.Output{Stdout: "\n"}, commandtest.Failure(125, "Error: inspecting object: "+args[0]+": image not known\n")
	}
	return command.Output{Stdout: id + " 206018\n"}, nil
}

func (f *fake) load(_ []string, stdin []byte) (command.Output, error) {
	name, root, id := readArchive(f.t, stdin)
	f.roots[id] = append(f.roots[id], root)
	if name != "" {
		f.names[name] = id
	}
	if f.loaded != nil {
		return command.Output{}, f.loaded(id)
	}
	return command.Output{Stdout: "Loaded image: sha256:" + id + "\n"}, nil
}

// readArchive is the name that an archive gives its image, the root and the id. Podman takes no OCI layout with several
// descriptors; it reads Docker's form of the archive then, which has no root.
func readArchive(t *testing.T, data []byte) (name, root, id string) {
	t.Helper()
	members := map[string][]byte{}
	for tr := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		members[h.Name], err = io.ReadAll(tr)
		require.NoError(t, err)
	}
	var index ocispec.Index
	require.NoError(t, json.Unmarshal(members["index.json"], &index))
	var list []struct {
		Config   string
		RepoTags []string
	}
	require.NoError(t, json.Unmarshal(members["manifest.json"], &list))
	if len(index.Manifests) > 1 {
		return strings.Join(list[0].RepoTags, ""), "", filepath.Base(list[0].Config)
	}
	only := index.Manifests[0]
	return only.Annotations["io.containerd.image.name"], only.Digest.String(), filepath.Base(list[0].Config)
}

// calls are what was run since the last time, without questions.
func (f *fake) calls() []string {
	var calls []string
	for _, call := range f.runner.Calls() {
		if call = strings.TrimPrefix(call, "podman "); !strings.HasPrefix(call, "info") && !strings.HasPrefix(call, "image inspect") {
			calls = append(calls, f.labelled(call))
		}
	}
	return calls
}

func (f *fake) state() map[string]string {
	state := map[string]string{}
	for name, id := range f.names {
		state[f.labelled(name)] = f.labelled(id)
	}
	return state
}

func TestPlatformIsPodmansOwn(t *testing.T) {
	t.Parallel()
	p, err := newFake(t).target().Platform(t.Context())
	require.NoError(t, err)
	require.Equal(t, platform.Platform{OS: "linux", Architecture: "amd64"}, p)
}

func TestLoad(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		options imagetest.Options
		given   func(f *fake, img, old image.Image)
		want    target.Result // Sent is 1 for all of it
		calls   []string
		names   map[string]string
	}{
		"empty": {
			want:  target.Result{Outcome: target.Loaded, Sent: 1},
			calls: []string{"load --quiet", "tag new.id " + tag},
			names: map[string]string{tag: "new.id"},
		},
		"there already": {
			given: func(f *fake, img, _ image.Image) { f.hold(img, false, tag) },
			want:  target.Result{Outcome: target.Present},
			names: map[string]string{tag: "new.id"},
		},
		"there already by tag and digest": {
			options: imagetest.Options{Digest: true},
			given:   func(f *fake, img, _ image.Image) { f.hold(img, true, tag) },
			want:    target.Result{Outcome: target.Present},
			names:   map[string]string{tag: "new.id"},
		},
		"under another name": {
			given: func(f *fake, img, _ image.Image) { f.hold(img, false, other) },
			want:  target.Result{Outcome: target.Tagged},
			calls: []string{"tag new.id " + tag},
			names: map[string]string{tag: "new.id", other: "new.id"},
		},
		"another image under the name": {
			given: func(f *fake, _, old image.Image) { f.hold(old, true, tag) },
			want:  target.Result{Outcome: target.Loaded, Sent: 1, Replaced: "sha256:old.id"},
			calls: []string{"load --quiet", "tag new.id " + tag},
			names: map[string]string{tag: "new.id"},
		},
		"there without the root that the pin wants": {
			options: imagetest.Options{Digest: true},
			given:   func(f *fake, img, _ image.Image) { f.hold(img, false, tag) },
			want:    target.Result{Outcome: target.Loaded, Sent: 1},
			calls:   []string{"load --quiet", "tag new.id " + tag},
			names:   map[string]string{tag: "new.id"},
		},
		"under another name and without that root": {
			options: imagetest.Options{Digest: true},
			given:   func(f *fake, img, _ image.Image) { f.hold(img, false, other) },
			want:    target.Result{Outcome: target.Loaded, Sent: 1},
			calls:   []string{"tag new.id " + tag, "untag new.id " + tag, "load --quiet", "tag new.id " + tag},
			names:   map[string]string{tag: "new.id", other: "new.id"},
		},
		"digest alone": {
			options: imagetest.Options{ByDigest: true},
			want:    target.Result{Outcome: target.Loaded, Sent: 1},
			calls:   []string{"load --quiet"},
			names:   map[string]string{"docker.io/library/test@new.root": "new.id"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.options.Index = true
			img, old := imagetest.New(t, test.options), imagetest.New(t, imagetest.Options{Seed: 7})
			f := newFake(t)
			f.label("new", img)
			f.label("old", old)
			if test.given != nil {
				test.given(f, img, old)
			}
			got, err := f.target().Load(t.Context(), img)
			require.NoError(t, err)
			got.Replaced = f.labelled(got.Replaced)
			if got.Sent > 0 {
				got.Sent = 1
			}
			require.Equal(t, test.want, got)
			require.Equal(t, test.calls, f.calls())
			require.Equal(t, test.names, f.state())
		})
	}
}

// Of an image whose layers are not those that its manifest lists, podman keeps no digest of the registry's.
func TestRecompressedImageIsLoadedByTagAlone(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	img := imagetest.New(t, imagetest.Options{Recompressed: true, Index: true})
	f.label("new", img)
	result, err := f.target().Load(t.Context(), img)
	require.NoError(t, err)
	require.Equal(t, target.Loaded, result.Outcome)
	require.Equal(t, map[string]string{tag: "new.id"}, f.state())

	for _, o := range []imagetest.Options{{Recompressed: true, Digest: true}, {Recompressed: true, ByDigest: true}} {
		f := newFake(t)
		_, err := f.target().Load(t.Context(), imagetest.New(t, o))
		require.ErrorIs(t, err, target.ErrRecompressed)
		require.ErrorContains(t, err, "podman would answer to no digest of the image")
		require.Empty(t, f.calls())
	}
}

func TestFailedLoadsLeaveNoName(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given func(f *fake)
		want  string
	}{
		"a full disk": {func(f *fake) {
			f.loaded = func(string) error { return commandtest.Failure(125, "Error: writing blob: no space left on device\n") }
		}, "podman load: writing blob: no space left on device (free space in /var/tmp and where podman keeps images: a load takes the archive and the unpacked image at once)"},
		"owners out of range": {func(f *fake) {
			f.loaded = func(string) error {
				return commandtest.Failure(125, "Error: potentially insufficient UIDs or GIDs available in user namespace\n")
			}
		}, "podman load: potentially insufficient UIDs or GIDs available in user namespace (the image has owners outside the range of this rootless podman: " +
			"widen /etc/subuid and /etc/subgid, then podman system migrate)"},
		"success without the image": {func(f *fake) {
			f.loaded = func(id string) error {
				delete(f.roots, id)
				return nil
			}
		}, "podman reported success, but new.id: there is no such image"},
		"a tag that is refused": {func(f *fake) {
			f.runner.On("podman tag", commandtest.Fails(125, "Error: not today\n"))
		}, "podman tag: not today"},
		"a tag that is forgotten": {func(f *fake) {
			f.runner.On("podman tag", commandtest.Says(""))
		}, "podman reported success, but " + tag + ": there is no such image"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			img := imagetest.New(t, imagetest.Options{})
			f := newFake(t)
			f.label("new", img)
			test.given(f)
			_, err := f.target().Load(t.Context(), img)
			require.Error(t, err)
			require.Equal(t, test.want, f.labelled(err.Error()))
			require.NotErrorIs(t, err, target.ErrUnavailable)
			require.Empty(t, f.names)
			require.NotContains(t, f.roots, img.Config().Digest.Encoded())
		})
	}
}

func TestBrokenSourceLoadsNothing(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection reset")
	img := imagetest.New(t, imagetest.Options{}).Via(func(image.Source) image.Source {
		return imagetest.Source(func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) { return nil, refused })
	})
	f := newFake(t)
	old := imagetest.New(t, imagetest.Options{Seed: 7})
	f.label("old", old)
	f.hold(old, true, tag)
	_, err := f.target().Load(t.Context(), img)
	require.ErrorIs(t, err, refused)
	require.ErrorIs(t, err, image.ErrRead)
	require.Equal(t, map[string]string{tag: "old.id"}, f.state())
}

func TestWhatIsThereIsNotRead(t *testing.T) {
	t.Parallel()
	var opened atomic.Int32
	for _, name := range []string{tag, other} {
		img := imagetest.New(t, imagetest.Options{}).Via(func(s image.Source) image.Source {
			return imagetest.Source(func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
				opened.Add(1)
				return s.Blob(ctx, d)
			})
		})
		f := newFake(t)
		f.hold(img, true, name)
		_, err := f.target().Load(t.Context(), img)
		require.NoError(t, err)
	}
	require.Zero(t, opened.Load())
}

func TestImageForAnotherMachineIsRefused(t *testing.T) {
	t.Parallel()
	img := imagetest.New(t, imagetest.Options{Platform: platform.Platform{OS: "linux", Architecture: "riscv64"}})
	_, err := newFake(t).target().Load(t.Context(), img)
	require.ErrorContains(t, err, "the image is for linux/riscv64, containers here are linux/amd64")
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "podman.sock")
	absent := func([]string, []byte) (command.Output, error) { return command.Output{}, command.ErrNotFound }
	for name, test := range map[string]struct {
		host string
		info commandtest.Program
		want string
	}{
		"no program, no socket": {"", absent,
			"podman is not on PATH, and no podman daemon: " + missing + " does not exist: start podman, or set CONTAINER_HOST to where it listens"},
		"a socket that is not there": {"unix://" + missing, absent,
			"no podman daemon: " + missing + " does not exist: start podman, or set CONTAINER_HOST to where it listens"},
		"a program that fails": {"", commandtest.Fails(125, "Error: creating runtime: mkdir /run/x: permission denied\n"),
			"podman info: creating runtime: mkdir /run/x: permission denied (podman can't write where it keeps images: run it as the user that owns them)"},
		"a program that says nothing": {"", commandtest.Says("{}"), "podman info names no platform"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.runner.On("podman info --format json", test.info)
			p := podman.New(podman.Options{Runner: f.runner, Socket: missing, Getenv: func(name string) string {
				return map[string]string{"CONTAINER_HOST": test.host}[name]
			}})
			_, err := p.Platform(t.Context())
			require.ErrorIs(t, err, target.ErrUnavailable)
			require.EqualError(t, err, "target unavailable: "+test.want)
		})
	}
}

// hanging runs nothing, and never ends before its context.
type hanging struct{}

func (hanging) Run(ctx context.Context, _ command.Command) (command.Output, error) {
	<-ctx.Done()
	return command.Output{}, context.Cause(ctx)
}

func TestPodmanThatHangs(t *testing.T) {
	t.Parallel()
	p := podman.New(podman.Options{Runner: hanging{}, Timeout: 10 * time.Millisecond})
	_, err := p.Platform(t.Context())
	require.EqualError(t, err, "target unavailable: podman info did not answer within 10ms")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.Platform(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, target.ErrUnavailable)
}

// A podman that hangs in the middle costs the time for a call and no more.
func TestPodmanThatHangsLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		p := podman.New(podman.Options{Runner: later{f.runner}})
		_, err := p.Platform(t.Context())
		require.NoError(t, err)
		began := time.Now()
		_, err = p.Load(t.Context(), imagetest.New(t, imagetest.Options{}))
		require.EqualError(t, err, "podman image did not end within 1m0s: it hangs, or its disk does")
		require.Equal(t, time.Minute, time.Since(began))
	})
}

// later hangs but for the first question.
type later struct{ command.Runner }

func (l later) Run(ctx context.Context, c command.Command) (command.Output, error) {
	if c.Argv[1] == "info" {
		return l.Runner.Run(ctx, c)
	}
	return hanging{}.Run(ctx, c)
}

// A socket that is named is taken, whatever the program would say.
func TestNamedSocketGoesFirst(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "pullonce") // short: a socket's path has room for 107 bytes
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	path := filepath.Join(dir, "podman.sock")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	require.NoError(t, listener.(*net.UnixListener).SetDeadline(time.Now()))
	t.Cleanup(func() { _ = listener.Close() })
	f := newFake(t)
	p := podman.New(podman.Options{Runner: f.runner, Timeout: 50 * time.Millisecond, Getenv: func(name string) string {
		return map[string]string{"CONTAINER_HOST": "unix://" + path}[name]
	}})
	_, err = p.Platform(t.Context())
	require.ErrorIs(t, err, target.ErrUnavailable)
	require.ErrorContains(t, err, path)
	require.Empty(t, f.runner.Calls(), "the program was not asked")
}
