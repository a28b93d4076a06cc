package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/store"
)

func TestASaveThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, encode := range map[string]func(context.Context, io.WriterAt, image.Image) error{
		"at once": func(context.Context, io.WriterAt, image.Image) error { return syscall.ENOSPC },
		"amid": func(ctx context.Context, w io.WriterAt, img image.Image) error {
			return image.EncodeAt(ctx, &fullDisk{w, 5000}, img)
		},
		"at the end": func(ctx context.Context, w io.WriterAt, img image.Image) error {
			return image.EncodeAt(ctx, &fullDisk{w, image.EncodedSize(img) - 1}, img)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			s.encode = encode
			err := s.Save(t.Context(), key, imagetest.New(t, imagetest.Options{}))
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.ErrorContains(t, err, s.path)
			require.ErrorContains(t, err, key)
			require.Equal(t, []string{".gitignore"}, tree(t, s))
			_, err = s.Stat(t.Context(), key)
			require.ErrorIs(t, err, store.ErrNotFound)
		})
	}
}

// fullDisk has room for so many bytes.
type fullDisk struct {
	w    io.WriterAt
	room int64
}

func (d *fullDisk) WriteAt(p []byte, off int64) (int, error) {
	n, err := d.w.WriteAt(p[:min(int64(len(p)), max(0, d.room-off))], off)
	if err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

func TestBytesThatDoNotVerifyAreNotPublished(t *testing.T) {
	t.Parallel()
	s, p := newStore(t), imagetest.Parts(t, imagetest.Options{Layers: 2})
	img, err := image.New(p)
	require.NoError(t, err)
	p.Source.(imagetest.Blobs)[img.Layers()[1].Descriptor.Digest][7] ^= 1
	err = s.Save(t.Context(), key, img)
	require.ErrorIs(t, err, image.ErrVerify)
	require.Equal(t, []string{".gitignore"}, tree(t, s))
}

func TestAFailedSaveLeavesTheOtherGenerationsAlone(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	save(t, s, key, imagetest.Options{})
	before := tree(t, s)
	s.encode = func(context.Context, io.WriterAt, image.Image) error { return syscall.EIO }
	require.ErrorIs(t, s.Save(t.Context(), key+".1", imagetest.New(t, imagetest.Options{})), syscall.EIO)
	require.Equal(t, before, tree(t, s))
}

func TestForeignFilesStay(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	require.NoError(t, os.MkdirAll(filepath.Join(s.path, "sub"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(s.path, ".gitignore"), []byte("mine\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(s.path, "file"), []byte("mine"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(s.path, "sub", "notes"), []byte("mine"), 0o644))
	img := imagetest.New(t, imagetest.Options{})
	require.Error(t, s.Save(t.Context(), "file", img))
	require.NoError(t, s.Save(t.Context(), "sub", img))
	_, err := s.Prune(t.Context(), store.PruneOptions{Keep: func(string) bool { return false }})
	require.NoError(t, err)
	require.Equal(t, []string{".gitignore", "file", "sub", "sub/notes"}, tree(t, s))
	ignored, err := os.ReadFile(filepath.Join(s.path, ".gitignore"))
	require.NoError(t, err)
	require.Equal(t, "mine\n", string(ignored))
}

// A save that is broken off by its context leaves nothing, and the temporary file of another that still writes stays.
func TestSavesOfOneKeyDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	img := imagetest.New(t, imagetest.Options{Layers: 3, LayerSize: 100_000})
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Save(ctx, key, img.Observe(func(int) {
		require.NoError(t, s.Save(t.Context(), key, img))
		cancel()
	}))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{".gitignore", key, key + "/image.tar"}, tree(t, s))
}

func TestSavesAndPrunesAtOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	img := imagetest.New(t, imagetest.Options{})
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		wg.Go(func() {
			for range 100 {
				errs[i] = errors.Join(errs[i], s.Save(t.Context(), key, img), read(t, s))
			}
		})
	}
	stop := make(chan struct{})
	pruned := make(chan error)
	go func() {
		defer close(pruned)
		for {
			if _, err := s.Prune(t.Context(), store.PruneOptions{Keep: func(string) bool { return false }}); err != nil {
				pruned <- err
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	wg.Wait()
	close(stop)
	require.NoError(t, <-pruned)
	require.NoError(t, errors.Join(errs...))
	require.NotContains(t, fmt.Sprint(tree(t, s)), tempPrefix)
}

// read reads the entry whole, if it is there.
func read(t *testing.T, s *Store) error {
	img, err := s.Open(t.Context(), key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return image.Verify(t.Context(), img)
}
