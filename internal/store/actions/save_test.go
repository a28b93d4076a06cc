package actions_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cachetest"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/store/actions"
)

// keeper is a source that can have its blobs at hand, as a registry's spool can.
type keeper struct {
	imagetest.Blobs
	keep func(ctx context.Context) error

	mu     sync.Mutex
	opened map[digest.Digest]int
}

// Keep implements image.Keeper.
func (k *keeper) Keep(ctx context.Context, _ []ocispec.Descriptor) error { return k.keep(ctx) }

// Blob implements image.Source.
func (k *keeper) Blob(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	k.mu.Lock()
	k.opened[d.Digest]++
	k.mu.Unlock()
	return k.Blobs.Blob(ctx, d)
}

// kept is an image whose source keeps its blobs.
func kept(t *testing.T, o imagetest.Options, keep func(context.Context) error) (image.Image, *keeper) {
	t.Helper()
	parts := imagetest.Parts(t, o)
	source := &keeper{Blobs: parts.Source.(imagetest.Blobs), keep: keep, opened: map[digest.Digest]int{}}
	parts.Source = source
	img, err := image.New(parts)
	require.NoError(t, err)
	return img, source
}

// nowhere is a folder in which nothing can be written.
const nowhere = "/dev/null/nowhere"

func TestWhatIsAtHandIsReadOnceAndNotSpooled(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]imagetest.Options{"small": small, "large": large, "recompressed": {Layers: 2, LayerSize: 5 << 20, Recompressed: true}} {
		synctest.Test(t, func(t *testing.T) {
			c := cachetest.New(cachetest.Options{})
			s := open(t, c, actions.Options{SpoolDir: nowhere})
			img, source := kept(t, o, func(context.Context) error { return nil })
			require.NoError(t, s.Save(t.Context(), key, img))
			for d, times := range source.opened {
				require.Equal(t, 1, times, "%s: %s", name, d)
			}
			got, err := s.Open(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, encoded(t, img), encoded(t, got))
		})
	}
}

func TestWhatCanNotBeKeptBySourceOrSpoolIsAnError(t *testing.T) {
	t.Parallel()
	c := cachetest.New(cachetest.Options{})
	s := open(t, c, actions.Options{SpoolDir: nowhere})
	img, _ := kept(t, small, func(context.Context) error { return errors.ErrUnsupported })
	require.ErrorContains(t, s.Save(t.Context(), key, img), "spooling")
	require.Empty(t, c.Requests())
}

// The first block takes a moment, and so does a reservation.
func TestTheFirstBlockIsMadeWhileTheKeyIsReserved(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		img, source := kept(t, imagetest.Options{Layers: 5, LayerSize: 5 << 20}, func(context.Context) error { return nil })
		c.Script(cachetest.Create, func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			time.Sleep(time.Second)
			source.mu.Lock()
			defer source.mu.Unlock()
			require.Len(t, source.opened, 2, "of five")
			next.ServeHTTP(w, req)
		})
		require.NoError(t, s.Save(t.Context(), key, img))
		require.Len(t, source.opened, 5)
	})
}

// A reservation that nothing follows blocks its key, so that none is made before all bytes are here.
func TestNothingIsReservedBeforeAllIsAtHand(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, keep := range map[string]func(context.Context) error{
		"broken": func(context.Context) error { return broken },
		"cancelled": func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := cachetest.New(cachetest.Options{})
			s := open(t, c, actions.Options{SpoolDir: nowhere})
			img, source := kept(t, large, keep)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(broken) })
			require.ErrorIs(t, s.Save(ctx, key, img), broken, name)
			require.Empty(t, c.Requests(), name)
			require.Empty(t, source.opened, name)
		})
	}
}

// The layers lie where they were verified; one that has changed since is found, and nothing of it is published.
func TestALayerThatChangedWhereItLaysIsNotPublished(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		img, source := kept(t, large, func(context.Context) error { return nil })
		source.Blobs[img.Layers()[2].Descriptor.Digest][1000] ^= 1
		require.ErrorIs(t, s.Save(t.Context(), key, img), image.ErrVerify)
		require.Len(t, c.Requests(cachetest.Create), 1)
		require.Empty(t, c.Requests(cachetest.PutBlockList, cachetest.Finalize))
		require.Empty(t, c.Entries())
	})
}

func TestBlocksMayComeInAnyOrder(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		for i := range 5 {
			c.Script(cachetest.PutBlock, regtest.Delay(time.Duration(5-i)*time.Second))
		}
		img := primed(t, c, s, large)
		got, err := s.Open(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, encoded(t, img), encoded(t, got))
	})
}

// The memory for blocks is one for all that is saved at once: it bounds how many are on their way.
func TestSavesShareTheirBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := cachetest.New(cachetest.Options{})
		var busy, most atomic.Int32
		c.Always(cachetest.PutBlock, func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			most.Store(max(most.Load(), busy.Add(1)))
			defer busy.Add(-1)
			time.Sleep(time.Second)
			next.ServeHTTP(w, req)
		})
		s := open(t, c, actions.Options{Blocks: 3})
		img, _ := kept(t, large, func(context.Context) error { return nil })
		var saves sync.WaitGroup
		for i := range 4 {
			saves.Go(func() { require.NoError(t, s.Save(t.Context(), fmt.Sprintf("%s%d", key, i), img)) })
		}
		saves.Wait()
		require.Len(t, c.Entries(), 4)
		require.Equal(t, int32(3), most.Load())
	})
}

func TestAnUploadThatIsCancelledPublishesNothing(t *testing.T) {
	t.Parallel()
	for _, op := range []cachetest.Op{cachetest.PutBlock, cachetest.PutBlockList} {
		bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
			c.Always(op, regtest.Hang())
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			img, _ := kept(t, large, func(context.Context) error { return nil })
			took := elapsed(func() { require.ErrorIs(t, s.Save(ctx, key, img), context.Canceled) })
			require.Equal(t, time.Second, took, op)
			require.Empty(t, c.Entries())

			require.NoError(t, s.Save(t.Context(), key+"0", imagetest.New(t, small)), "no memory is lost by it")
		})
	}
}

func TestLargeImagesThatRaceMakeOneEntry(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		c.Always(cachetest.PutBlock, regtest.Delay(2*time.Second))
		var both sync.WaitGroup
		for _, s := range []*actions.Store{s, open(t, c, actions.Options{})} {
			img, _ := kept(t, large, func(context.Context) error { return nil })
			both.Go(func() { require.NoError(t, s.Save(t.Context(), key, img)) })
		}
		both.Wait()
		require.Equal(t, []string{key}, keys(c))
		require.Len(t, c.Requests(cachetest.PutBlockList), 1, "the other has sent nothing")
	})
}
