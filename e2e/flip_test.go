//go:build linux

package e2e

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/lane"
	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
	client "github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/store/dir"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/docker"
)

// layerStride is how far flipped bytes of layers are apart; of everything else each byte is flipped.
const layerStride = 4 << 10

// A flipped byte in an entry either makes the lane warn and pull, or changes nothing in the daemon: it never gets
// another image or another name. The thousands of runs are made in this process. What each would send to the daemon is
// an archive, and each archive that differs from all before is really sent, into an empty daemon.
func TestEveryByteFlipped(t *testing.T) {
	forEachEngine(t, func(t *testing.T, d *daemon) {
		e := primeEntry(t, d)
		random := seeded(t)
		whole, layers := e.offsets(t)
		flips := append([]int64(nil), whole...)
		for _, l := range layers {
			for at := l.start; at < l.end; at += layerStride {
				flips = append(flips, at+random.Int64N(min(layerStride, l.end-at)))
			}
		}
		sent := e.openTarget(t, d)
		warned := 0
		for _, at := range flips {
			e.flip(t, at, byte(1+random.IntN(255)), func() {
				if e.lane(t, sent) {
					warned++
				}
			})
			if sent.sent {
				e.requireIntact(t, d)
				d.empty(t)
			}
		}
		t.Logf("%d bytes outside of layers and %d inside flipped: %d runs warned and pulled, %d changed nothing; %d different archives",
			len(whole), len(flips)-len(whole), warned, len(flips)-warned, len(sent.archives))
		require.Greater(t, warned, len(whole)/2)
	})
}

// sampleFlips is how many flips are run through the program itself and the daemon, of bytes outside of layers and of
// bytes inside each.
const sampleFlips = 6

// The same through the program and the daemon, for a sample.
func TestSomeBytesFlipped(t *testing.T) {
	forEachEngine(t, func(t *testing.T, d *daemon) {
		e := primeEntry(t, d)
		random := seeded(t)
		whole, layers := e.offsets(t)
		var flips []int64
		for range sampleFlips {
			l := layers[random.IntN(len(layers))]
			flips = append(flips, whole[random.IntN(len(whole))], l.start+random.Int64N(l.end-l.start))
		}
		for _, at := range flips {
			d.empty(t)
			e.flip(t, at, 0xff, func() {
				loaded := e.program.run(t, with([]string{"load"}, e.list...)...)
				require.Equal(t, 0, loaded.code)
				if loaded.sources()[0] == report.Registry {
					loaded.requireOne(t, report.Warning, "e2e/flipped:1", "pulled from the registry instead of the store")
				} else {
					require.Empty(t, loaded.report.Problems)
				}
			})
			e.requireIntact(t, d)
		}
	})
}

// entry is one image in a store and what the daemon must make of it.
type entry struct {
	program   program
	list      []string // the arguments that name it
	ref       string
	key, path string
	store     *dir.Store
	id        string
}

// primeEntry publishes a small image behind an index and primes it. Its id is what docker pull makes of it.
func primeEntry(t *testing.T, d *daemon) entry {
	t.Helper()
	work := tempDir(t)
	r := startRegistry(t, filepath.Join(work, "registry"))
	index, err := behindIndex(tiny(t, "flipped"), tiny(t, "other"))
	require.NoError(t, err)
	require.NoError(t, r.push(t.Context(), "e2e/flipped:1", index))
	e := entry{program: pullonce(t, d), ref: r.addr + "/e2e/flipped:1"}
	d.docker(t, "pull", "--quiet", e.ref)
	e.id = d.id(t, e.ref)
	d.empty(t)

	path := filepath.Join(work, "store")
	e.list = pins(t, path, e.ref)
	require.Equal(t, 0, e.program.run(t, with([]string{"prime"}, e.list...)...).code)
	e.store, err = dir.New(path)
	require.NoError(t, err)
	all, err := e.store.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	e.key, e.path = all[0].Key, e.store.Path(all[0].Key)
	return e
}

// span is a range of bytes of a file.
type span struct{ start, end int64 }

// offsets are every byte of the archive that is in no layer, headers and padding included, and where the layers are.
func (e entry) offsets(t *testing.T) (outside []int64, layers []span) {
	t.Helper()
	f, err := os.Open(e.path)
	require.NoError(t, err)
	defer f.Close()
	for tr := tar.NewReader(f); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		start, err := f.Seek(0, io.SeekCurrent)
		require.NoError(t, err)
		magic := make([]byte, 2)
		_, err = f.ReadAt(magic, start)
		require.NoError(t, err)
		if strings.HasPrefix(h.Name, "blobs/") && string(magic) == "\x1f\x8b" {
			layers = append(layers, span{start, start + h.Size})
		}
	}
	require.Len(t, layers, 2)
	info, err := f.Stat()
	require.NoError(t, err)
	next := int64(0)
	for _, l := range append(layers[:len(layers):len(layers)], span{info.Size(), info.Size()}) {
		for ; next < l.start; next++ {
			outside = append(outside, next)
		}
		next = l.end
	}
	return outside, layers
}

// flip changes one byte of the entry while during runs.
func (e entry) flip(t *testing.T, at int64, mask byte, during func()) {
	t.Helper()
	f, err := os.OpenFile(e.path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	defer func() {
		if t.Failed() {
			t.Logf("byte %d of %s was flipped", at, e.path)
		}
	}()
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{b[0] ^ mask}, at)
	require.NoError(t, err)
	during()
	_, err = f.WriteAt(b, at)
	require.NoError(t, err)
}

// requireIntact holds the daemon to exactly the one image, under exactly the one name.
func (e entry) requireIntact(t *testing.T, d *daemon) {
	t.Helper()
	require.Equal(t, []string{e.ref}, d.names(t))
	require.Equal(t, e.id, d.id(t, e.ref))
	require.Equal(t, "flipped", d.run(t, e.ref, busybox, "cat", "/etc/version"))
}

// lane is what pullonce load does with the entry, in this process. It says whether the lane warned and pulled; if not,
// it took the entry and had nothing to say.
func (e entry) lane(t *testing.T, into *sendOnce) (warned bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	into.last, into.sent = "", false
	upstream := &upstream{image: into.pristine}
	done := lane.Run(ctx, lane.Options{
		Pins: []pin.Pin{{Reference: into.pristine.Reference()}}, Store: e.store, Registry: upstream,
		Targets: []lane.Target{{Name: "docker", Target: into}},
	})
	require.Len(t, done.Images, 1)
	require.NotEmpty(t, into.last, "something was sent: %+v", done.Problems)
	if len(done.Problems) == 0 {
		require.Equal(t, report.Cache, done.Images[0].Source)
		require.Zero(t, upstream.pulls)
		return false
	}
	require.Len(t, done.Problems, 1)
	require.Equal(t, report.Warning, done.Problems[0].Severity)
	require.Contains(t, done.Problems[0].Message, "e2e/flipped:1")
	require.Equal(t, report.Registry, done.Images[0].Source)
	require.Equal(t, 1, upstream.pulls)
	return true
}

// upstream is a registry that has the one image, and counts.
type upstream struct {
	image image.Image
	pulls int
}

func (u *upstream) Pull(context.Context, reference.Reference, platform.Platform) (*client.Pull, error) {
	u.pulls++
	return &client.Pull{Image: u.image}, nil
}

// sendOnce is the daemon as a target that is sent each archive once: the same bytes make the same image.
type sendOnce struct {
	target.Target
	pristine image.Image
	archives map[string]bool // by their sums
	last     string          // the sum of the last run's archive, or "" where none was whole
	sent     bool            // the last run's archive went to the daemon
}

func (e entry) openTarget(t *testing.T, d *daemon) *sendOnce {
	t.Helper()
	daemonTarget, err := docker.New(docker.Options{Host: d.host()})
	require.NoError(t, err)
	pristine := filepath.Join(tempDir(t), "pristine")
	require.NoError(t, os.CopyFS(pristine, os.DirFS(filepath.Dir(filepath.Dir(e.path)))))
	kept, err := dir.New(pristine)
	require.NoError(t, err)
	img, err := kept.Open(t.Context(), e.key)
	require.NoError(t, err)
	return &sendOnce{Target: daemonTarget, pristine: img, archives: make(map[string]bool)}
}

// Load implements target.Target.
func (s *sendOnce) Load(ctx context.Context, img image.Image) (target.Result, error) {
	sum := sha256.New()
	if err := image.Encode(ctx, sum, img); err != nil {
		return target.Result{}, err
	}
	s.last = fmt.Sprintf("%x", sum.Sum(nil))
	if s.archives[s.last] {
		return target.Result{Outcome: target.Loaded}, nil
	}
	s.archives[s.last], s.sent = true, true
	return s.Target.Load(ctx, img)
}
