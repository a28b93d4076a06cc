package fanout_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/fanout"
	"github.com/pullonce/pullonce/internal/image/imagetest"
)

// opening is a source that does something else when a blob is opened.
type opening func()

// Blob implements image.Source.
func (o opening) Blob(context.Context, ocispec.Descriptor) (io.ReadCloser, error) {
	o()
	return nil, errors.New("opened once more")
}

func TestAPanicOfTheSourceIsAnErrorForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := imagetest.New(t, imagetest.Options{}).Via(func(image.Source) image.Source { return opening(func() { panic("a bug") }) })
		fanout.Each(t.Context(), img, 3, func(_ int, share image.Image) {
			if err := image.Verify(t.Context(), share); !contains(err, "panicked: a bug") {
				t.Errorf("not the panic: %v", err)
			}
		})
	})
}

// A goroutine that ends in the middle of a read for all does not leave the others waiting.
func TestAnEarlyExitWhileReadingIsAnErrorForTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := imagetest.New(t, imagetest.Options{}).Via(func(image.Source) image.Source { return opening(runtime.Goexit) })
		var told atomic.Int32
		fanout.Each(t.Context(), img, 3, func(_ int, share image.Image) {
			if err := image.Verify(t.Context(), share); contains(err, "ended before it was done") {
				told.Add(1)
			}
		})
		require.EqualValues(t, 2, told.Load())
	})
}

func TestAPanicOfOneTakerReachesTheCallerAndNoOtherTaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img, source, archive := newImage(t, small)
		require.PanicsWithValue(t, "a bug", func() {
			fanout.Each(t.Context(), img, 3, func(i int, share image.Image) {
				if i == 1 {
					panic("a bug")
				}
				takes(t, share, archive)
			})
		})
		require.Equal(t, layers, source.total(t))
	})
}

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }
