package sample

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/require"
)

// machine has files of many sizes in many folders, and some that no image gets.
func machine() fstest.MapFS {
	files := fstest.MapFS{
		"bin/busybox":                {Data: []byte("a program")},
		"usr/share/doc/a/readme":     {Data: make([]byte, 10)},
		"usr/lib/a/__pycache__/x.py": {Data: make([]byte, 10)},
		"usr/lib/a/lib.a":            {Data: make([]byte, 10)},
		"usr/lib/a/empty":            {},
		"usr/lib/a/huge":             {Data: make([]byte, largest+1)},
	}
	for _, root := range roots() {
		for i := range 40 {
			for j := range 10 {
				text := strings.Repeat(fmt.Sprintf("%s %d %d\n", root, i, j), 1+i*j)
				files[fmt.Sprintf("%s/%c/%d", root, 'a'+i, j)] = &fstest.MapFile{Data: []byte(text), Mode: 0o640}
			}
		}
	}
	return files
}

func TestThePoolLeavesOutWhatImagesHaveNot(t *testing.T) {
	t.Parallel()
	files, err := pool(machine())
	require.NoError(t, err)
	require.Len(t, files, 40*10*len(roots()))
	for _, f := range files {
		require.NotContains(t, f.path, "doc")
	}
}

func TestChooseComesNearBytesAndFiles(t *testing.T) {
	t.Parallel()
	files, err := pool(machine())
	require.NoError(t, err)
	for _, want := range []layer{{seed: 1, bytes: 500_000, files: 300}, {seed: 2, bytes: 100_000, files: 90}, {seed: 3, bytes: 200_000, files: 60}} {
		chosen, err := choose(files, want)
		require.NoError(t, err)
		var total int64
		for _, f := range chosen {
			total += f.size
		}
		require.InEpsilon(t, want.bytes, total, 0.05)
		require.InEpsilon(t, want.files, len(chosen), 0.1)
	}
}

func TestChooseIsDecidedByTheSeed(t *testing.T) {
	t.Parallel()
	files, err := pool(machine())
	require.NoError(t, err)
	chosen := func(seed uint64) []file {
		c, err := choose(files, layer{seed: seed, bytes: 100_000, files: 80})
		require.NoError(t, err)
		return c
	}
	require.Equal(t, chosen(1), chosen(1))
	require.NotEqual(t, chosen(1), chosen(2))
}

func TestChooseFromTooFew(t *testing.T) {
	t.Parallel()
	_, err := choose([]file{{path: "usr/bin/a", size: 10}}, layer{bytes: 1000, files: 10})
	require.ErrorContains(t, err, "the machine has too few files below /usr")
}

// tiny are images with a shared base that the machine of these tests has enough for.
func tiny() []Spec {
	base := Spec{Name: "base", Bytes: 100_000, Files: 80, Layers: []float64{1}}
	return []Spec{
		{Name: "a", Bytes: 100_000, Files: 80, Layers: []float64{0.75, 0.25}, Base: &base},
		{Name: "b", Bytes: 80_000, Files: 60, Layers: []float64{1}, Base: &base},
	}
}

func TestMakeIsDeterministic(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	addr := strings.TrimPrefix(server.URL, "http://")
	first, err := Make(t.Context(), machine(), tiny(), t.TempDir(), addr)
	require.NoError(t, err)
	second, err := Make(t.Context(), machine(), tiny(), t.TempDir(), addr)
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.Equal(t, []int{3, 2}, []int{first[0].Layers, first[1].Layers})
	require.Equal(t, "h:1/bench/a:1", first[0].Ref("h:1"))
	require.NotEqual(t, first[0].Manifest, first[1].Manifest)
}

func TestImagesShareTheirBase(t *testing.T) {
	t.Parallel()
	specs := tiny()
	require.Equal(t, specs[0].layers()[0], specs[1].layers()[0])
	require.NotEqual(t, specs[0].layers()[1], specs[1].layers()[1])
}

// A layer's list of checksums is of files that it holds, with the content that the machine has.
func TestALayerCanBeChecked(t *testing.T) {
	t.Parallel()
	files, err := pool(machine())
	require.NoError(t, err)
	l := layer{seed: 7, bytes: 50_000, files: 40}
	chosen, err := choose(files, l)
	require.NoError(t, err)
	w, err := writeLayer(machine(), chosen, l, true, t.TempDir())
	require.NoError(t, err)
	content := untar(t, w.path)
	list := content["bench/sums/0000000000000007"]
	require.NotEmpty(t, list)
	lines := strings.Split(strings.TrimSpace(string(list)), "\n")
	require.GreaterOrEqual(t, len(lines), inSums)
	require.Contains(t, lines[0], "  "+Busybox)
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  /")
		require.Contains(t, content, name)
		require.Equal(t, fmt.Sprintf("%x", sha256.Sum256(content[name])), sum)
	}
	info, err := os.Stat(w.path)
	require.NoError(t, err)
	require.Equal(t, info.Size(), w.size)
}

// untar gives the files of a gzipped layer, and fails if one is there twice or comes before its folder.
func untar(t *testing.T, path string) map[string][]byte {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	content := map[string][]byte{}
	for r := tar.NewReader(zipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return content
		}
		require.NoError(t, err)
		require.NotContains(t, content, h.Name)
		var b bytes.Buffer
		_, err = io.Copy(&b, r)
		require.NoError(t, err)
		content[h.Name] = b.Bytes()
	}
}

func TestEveryNameIsOfImages(t *testing.T) {
	t.Parallel()
	for _, name := range []string{Small, M, L, Set} {
		require.NotEmpty(t, Specs(name), name)
		for _, s := range Specs(name) {
			sum := 0.0
			for _, share := range s.Layers {
				sum += share
			}
			require.InDelta(t, 1, sum, 1e-9, s.Name)
		}
	}
	require.Empty(t, Specs("XL"))
}

func TestTheShelfKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	s, err := NewShelf(t.TempDir())
	require.NoError(t, err)
	require.DirExists(t, s.Storage())
	_, err = s.Get(t.Context(), "XL", "127.0.0.1:1")
	require.EqualError(t, err, `no image is called "XL"`)
	require.NoError(t, publish(s.dir+"/M.json", []byte(`[{"repository":"bench/m","tag":"1","layers":6}]`)))
	kept, err := s.Get(t.Context(), M, "127.0.0.1:1")
	require.NoError(t, err)
	require.Equal(t, []Image{{Repository: "bench/m", Tag: "1", Layers: 6}}, kept)

	require.NoError(t, publish(s.dir+"/set.json", []byte(`[{"repository":"bench/a"},{"repository":"bench/b"}]`)))
	require.NoError(t, publish(s.dir+"/small.json", []byte(`[{"repository":"bench/small"}]`)))
	kept, err = s.Get(t.Context(), Five, "127.0.0.1:1")
	require.NoError(t, err)
	require.Equal(t, []Image{{Repository: "bench/a"}, {Repository: "bench/b"}, {Repository: "bench/small"}}, kept)
}
