package dir

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/store"
)

// saverPath makes the test binary a process that saves one image into the store at that path.
const saverPath = "DIR_TEST_SAVER"

func TestMain(m *testing.M) {
	if path := os.Getenv(saverPath); path != "" {
		os.Exit(saver(path))
	}
	os.Exit(m.Run())
}

// saver copies the image from the store beside the one at path. Halfway it says so on its output, and waits for the end of
// its input.
func saver(path string) int {
	if err := copyEntry(context.Background(), path+sourceSuffix, path); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("saved")
	return 0
}

// sourceSuffix makes a store's path that of the store which its savers copy from.
const sourceSuffix = "-source"

func copyEntry(ctx context.Context, from, to string) error {
	source, err := New(from)
	if err != nil {
		return err
	}
	target, err := New(to)
	if err != nil {
		return err
	}
	img, err := source.Open(ctx, key)
	if err != nil {
		return err
	}
	var left atomic.Int64 // layers are written side by side
	left.Store(img.Size() / 2)
	return target.Save(ctx, key, img.Observe(func(n int) {
		if after := left.Add(-int64(n)); after <= 0 && after+int64(n) > 0 {
			fmt.Println("halfway")
			_, _ = io.Copy(io.Discard, os.Stdin)
		}
	}))
}

// process is a saver that runs.
type process struct {
	cmd    *exec.Cmd
	in     io.Closer
	out    *bufio.Scanner
	errors *bytes.Buffer
}

// start runs a saver as far as the middle of what it writes.
func start(t *testing.T, s *Store) *process {
	t.Helper()
	source, err := New(s.path + sourceSuffix)
	require.NoError(t, err)
	save(t, source, key, imagetest.Options{Layers: 2, LayerSize: 300_000})
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), saverPath+"="+s.path)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	require.NoError(t, cmd.Start())
	p := &process{cmd, in, bufio.NewScanner(out), &errors}
	p.expect(t, "halfway")
	return p
}

func (p *process) expect(t *testing.T, line string) {
	t.Helper()
	require.True(t, p.out.Scan(), "%s", p.errors)
	require.Equal(t, line, p.out.Text())
}

// finish lets the saver go on to its end.
func (p *process) finish(t *testing.T) {
	t.Helper()
	require.NoError(t, p.in.Close())
	p.expect(t, "saved")
	require.NoError(t, p.cmd.Wait())
}

// kill ends the saver at once, as kill -9 does.
func (p *process) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Kill())
	require.Error(t, p.cmd.Wait())
}

func temps(t *testing.T, s *Store) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(s.path, "*", tempPrefix+"*"))
	require.NoError(t, err)
	return found
}

func TestProcessesRaceOnOneKey(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	processes := make([]*process, 4)
	for i := range processes {
		processes[i] = start(t, s)
	}
	require.Len(t, temps(t, s), len(processes), "all of them write, and none takes another's file for stale")
	_, err := s.Stat(t.Context(), key)
	require.ErrorIs(t, err, store.ErrNotFound)
	for _, p := range processes {
		p.finish(t)
	}
	require.Equal(t, []string{".gitignore", key, key + "/image.tar"}, tree(t, s))
	found, err := s.Inspect(t.Context(), key)
	require.NoError(t, err)
	require.NoError(t, found.Problem)
}

func TestAKilledSaveLeavesOnlyATemporaryFile(t *testing.T) {
	t.Parallel()
	for name, clean := range map[string]func(*testing.T, *Store){
		"cleaned up by the next save": func(t *testing.T, s *Store) {
			save(t, s, key, imagetest.Options{})
			require.Equal(t, []string{".gitignore", key, key + "/image.tar"}, tree(t, s))
		},
		"cleaned up by prune": func(t *testing.T, s *Store) {
			pruned, err := s.Prune(t.Context(), store.PruneOptions{})
			require.NoError(t, err)
			require.Len(t, pruned, 1)
			require.Equal(t, store.Stale, pruned[0].Reason)
			require.Equal(t, key, pruned[0].Key)
			require.Positive(t, pruned[0].Size)
			require.Equal(t, []string{".gitignore"}, tree(t, s))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			p := start(t, s)
			require.Len(t, temps(t, s), 1)
			pruned, err := s.Prune(t.Context(), store.PruneOptions{})
			require.NoError(t, err)
			require.Empty(t, pruned, "the writer is alive")

			p.kill(t)
			require.Len(t, temps(t, s), 1)
			_, err = s.Stat(t.Context(), key)
			require.ErrorIs(t, err, store.ErrNotFound)
			would, err := s.Prune(t.Context(), store.PruneOptions{DryRun: true})
			require.NoError(t, err)
			require.Len(t, would, 1)
			require.Equal(t, temps(t, s)[0], would[0].Path)
			clean(t, s)
		})
	}
}

func TestALiveWriterIsLeftAloneByTheNextSave(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	p := start(t, s)
	save(t, s, key, imagetest.Options{Seed: 9})
	require.Len(t, temps(t, s), 1)
	p.finish(t)
	got, err := s.Open(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, imagetest.New(t, imagetest.Options{Seed: 9}).Root(), got.Root(), "the first one there stays")
	require.Empty(t, temps(t, s))
}
