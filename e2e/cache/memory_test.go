package cache

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/store/actions"
)

// bigLayers are the layers of an entry of 2 GB, in bytes.
var bigLayers = []int64{500_000_000, 500_000_000, 500_000_000, 500_000_000, 32}

// maxResident is what a process may have in memory at any time, whatever the size of the entry, in bytes.
const maxResident = 96 << 20

// The jobs of a child process. It prints its peak of resident memory, in bytes, and the seconds it took.
const (
	childSave       = "save"       // the big image
	childSaveMedium = "savemedium" // the medium one
	childLoad       = "load"       // what was saved, layer by layer
	childAtOnce     = "atonce"     // what was saved, all layers at once
	childSaveFour   = "savefour"   // four images at once, whose layers are at hand
	childLoadFour   = "loadfour"   // what was saved, four images at once
)

func TestMemoryStaysFlat(t *testing.T) {
	gate(t)
	w := newWorld(t, false)
	for _, job := range []string{childSave, childLoad, childAtOnce} {
		resident, took := child(t, job, w.URL, t.TempDir())
		t.Logf("%s: %d MiB resident, %s", job, resident>>20, took)
		require.LessOrEqual(t, resident, int64(maxResident), job)
	}
}

// Four images are saved and read at once, and no file is made: there is no folder for one.
func TestMemoryStaysFlatForSeveralImagesWithoutFiles(t *testing.T) {
	gate(t)
	w := newWorld(t, false)
	for _, job := range []string{childSaveFour, childLoadFour} {
		resident, took := child(t, job, w.URL, "/dev/null/nowhere")
		t.Logf("%s: %d MiB resident, %s", job, resident>>20, took)
		require.LessOrEqual(t, resident, int64(maxResident), job)
	}
}

// An entry that actions/cache has written is one stream for all layers.
func TestMemoryStaysFlatForEntriesOfOthers(t *testing.T) {
	gate(t)
	w := newWorld(t, false)
	img, err := newImage(bigLayers...)
	require.NoError(t, err)
	w.saveAsTheyDo(t, img)
	resident, took := child(t, childLoad, w.URL, t.TempDir())
	t.Logf("%d MiB resident, %s", resident>>20, took)
	require.LessOrEqual(t, resident, int64(maxResident))
}

// command is a job in a process of its own.
func command(t *testing.T, job, resultsURL, spool string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, resultsURL, spool)
	cmd.Env = append(os.Environ(), envChild+"="+job)
	cmd.Stderr = os.Stderr
	return cmd
}

// child runs a job.
func child(t *testing.T, job, resultsURL, spool string) (resident int64, took time.Duration) {
	t.Helper()
	output, err := command(t, job, resultsURL, spool).Output()
	require.NoError(t, err)
	var seconds float64
	_, err = fmt.Sscan(string(output), &resident, &seconds)
	require.NoError(t, err, "%s", output)
	return resident, time.Duration(seconds * float64(time.Second))
}

func runChild(ctx context.Context, job string, args []string) error {
	s, err := newStore(args[0], args[1])
	if err != nil {
		return err
	}
	began := time.Now()
	switch job {
	case childSave:
		err = childSaves(ctx, s, bigLayers)
	case childSaveMedium:
		err = childSaves(ctx, s, mediumLayers)
	case childLoad:
		err = childLoads(ctx, s, 1)
	case childAtOnce:
		err = childLoads(ctx, s, len(bigLayers))
	case childSaveFour:
		err = fourTimes(func(i int) error { return childSavesKept(ctx, s, i) })
	case childLoadFour:
		err = fourTimes(func(i int) error { return childReads(ctx, s, i) })
	}
	if err != nil {
		return err
	}
	took := time.Since(began)
	resident, err := peak()
	if err == nil {
		fmt.Println(resident, took.Seconds())
	}
	return err
}

func childSaves(ctx context.Context, s *actions.Store, layers []int64) error {
	img, err := newImage(layers...)
	if err != nil {
		return err
	}
	return s.Save(ctx, key, img)
}

// fourTimes does f four times at once.
func fourTimes(f func(i int) error) error {
	var group errgroup.Group
	for i := range 4 {
		group.Go(func() error { return f(i) })
	}
	return group.Wait()
}

// keyOf is the key of one of four images.
func keyOf(i int) string { return fmt.Sprintf("%s%x", key[:len(key)-1], i) }

func childSavesKept(ctx context.Context, s *actions.Store, i int) error {
	img, err := newImageOf(byte(10*(i+1)), 100_000_000, 50_000_000, 32)
	if err != nil {
		return err
	}
	return s.Save(ctx, keyOf(i), img.Via(func(s image.Source) image.Source { return kept{s.(generated)} }))
}

// childReads reads an image as an archive.
func childReads(ctx context.Context, s *actions.Store, i int) error {
	img, err := s.Open(ctx, keyOf(i))
	if err != nil {
		return err
	}
	return image.Encode(ctx, io.Discard, img)
}

// childLoads reads so many layers at once.
func childLoads(ctx context.Context, s *actions.Store, atOnce int) error {
	img, err := s.Open(ctx, key)
	if err != nil {
		return err
	}
	var layers errgroup.Group
	layers.SetLimit(atOnce)
	for i := range img.Layers() {
		layers.Go(func() error {
			rc, err := img.Layer(ctx, i)
			if err != nil {
				return err
			}
			defer rc.Close()
			_, err = io.Copy(io.Discard, rc)
			return err
		})
	}
	return layers.Wait()
}

// peak is the most that this process has had in memory, in bytes.
func peak() (int64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("no VmHWM in /proc/self/status")
}
