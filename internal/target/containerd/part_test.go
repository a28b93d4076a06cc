package containerd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
)

// layersOf are layers of these sizes in MiB, named by letters.
func layersOf(names string, sizes ...int64) []image.Layer {
	layers := make([]image.Layer, len(sizes))
	for i, size := range sizes {
		sum := digest.FromString(names[i : i+1])
		layers[i] = image.Layer{Descriptor: ocispec.Descriptor{Digest: sum, Size: size << 20}, DiffID: sum}
	}
	return layers
}

func TestCut(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sizes []int64
		first int
		want  []int
	}{
		"no layers":                   {nil, 0, []int{0}},
		"one layer":                   {[]int64{900}, 0, []int{1}},
		"small":                       {[]int64{10, 10, 10}, 0, []int{3}},
		"medium":                      {[]int64{29, 4, 24, 35, 1, 7}, 0, []int{1, 3, 6}},
		"the last part is no scrap":   {[]int64{20, 20, 10}, 0, []int{1, 3}},
		"large":                       {[]int64{47, 31, 118, 16, 102, 3, 71, 135, 23, 15}, 0, []int{2, 3, 5, 7, 10}},
		"without the first":           {[]int64{29, 4, 24, 35, 1, 7}, 3, []int{6}},
		"without any":                 {[]int64{29, 4}, 2, []int{2}},
		"many of the least size":      {[]int64{16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16}, 0, []int{2, 4, 6, 8, 10, 12}},
		"behind a layer without size": {[]int64{0, 20, 20}, 0, []int{2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, cut(layersOf("abcdefghijkl", test.sizes...), test.first, partSize))
		})
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	var u underway
	first, release := u.claim(layersOf("abc", 20, 20, 20), 0, partSize, true)
	require.Len(t, first, 3)
	require.Nil(t, first[0].below)
	require.Same(t, first[1], first[2].below)

	second, releaseSecond := u.claim(layersOf("abd", 20, 20, 20), 0, partSize, true)
	require.Len(t, second, 1, "the rest is another's")
	require.Equal(t, []int{2, 3}, []int{second[0].from, second[0].end})
	require.Same(t, first[1], second[0].below)
	require.True(t, second[0].shared)
	require.True(t, second[0].unpacked)
	require.False(t, first[1].shared)

	all, _ := u.claim(layersOf("abd", 20, 20, 20), 0, partSize, true)
	require.Equal(t, []int{3, 3}, []int{all[0].from, all[0].end}, "nothing but the names")

	there, _ := u.claim(layersOf("abe", 20, 20, 20), 2, partSize, true)
	require.Nil(t, there[0].below, "what is there needs no other")

	first[1].finish(errors.New("no"))
	retried, _ := u.claim(layersOf("abf", 20, 20, 20), 0, partSize, true)
	require.Same(t, first[0], retried[0].below, "what did not come is not built upon")
	require.Equal(t, 1, retried[0].from)

	release()
	again, _ := u.claim(layersOf("ac", 20, 20), 0, partSize, true)
	require.Nil(t, again[0].below)
	releaseSecond()
}

// What may take long to come is not built upon, and builds upon what others bring.
func TestClaimsOfWhatIsNotAwaited(t *testing.T) {
	t.Parallel()
	var u underway
	pulled, release := u.claim(layersOf("abc", 20, 20, 20), 0, partSize, false)
	require.Len(t, pulled, 3)
	stored, _ := u.claim(layersOf("abd", 20, 20, 20), 0, partSize, true)
	require.Nil(t, stored[0].below)
	require.Zero(t, stored[0].from)
	release()
	later, _ := u.claim(layersOf("abe", 20, 20, 20), 0, partSize, false)
	require.Same(t, stored[1], later[0].below)
}

// Where little of a part is common, it is not worth waiting until all of it is unpacked.
func TestWaitsForWhatIsWorthIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		theirs, ours []image.Layer
		unpacked     bool
	}{
		"most is common":       {layersOf("ab", 30, 10), layersOf("ac", 30, 10), true},
		"little is common":     {layersOf("ab", 2, 14), layersOf("ac", 2, 14), false},
		"it takes no time":     {layersOf("ab", 1, 4), layersOf("ac", 1, 90), true},
		"it is the part's end": {layersOf("abc", 20, 1, 20), layersOf("abd", 20, 1, 20), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var u underway
			_, _ = u.claim(test.theirs, 0, partSize, true)
			parts, _ := u.claim(test.ours, 0, partSize, true)
			require.NotNil(t, parts[0].below)
			require.Equal(t, test.unpacked, parts[0].unpacked)
		})
	}
}

func TestArchiveEndsWhenWhatIsBelowIsThere(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		unpacked bool
		below    func(p *part)
		took     time.Duration
		want     error
	}{
		"unpacked":           {true, func(p *part) { close(p.sent); time.Sleep(time.Minute); p.finish(nil) }, time.Minute, nil},
		"sent is enough":     {false, func(p *part) { time.Sleep(time.Second); close(p.sent) }, time.Second, nil},
		"broken":             {true, func(p *part) { time.Sleep(time.Second); p.finish(errors.New("no")) }, time.Second, errBelow},
		"broken before sent": {false, func(p *part) { time.Sleep(time.Second); p.finish(errors.New("no")) }, time.Second, errBelow},
		"never":              {true, func(*part) {}, time.Hour, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				bottom := newPart(nil, 0, 0, nil)
				bottom.finish(nil)
				below := newPart(nil, 0, 0, bottom)
				above := newPart(nil, 0, 0, below)
				above.shared, above.unpacked = true, test.unpacked
				go test.below(below)
				began := time.Now()
				require.ErrorIs(t, above.ready(ctx), test.want)
				require.Equal(t, test.took, time.Since(began))
				require.NoError(t, await(t.Context(), above.sent), "it is sent, whatever it waits for")
			})
		})
	}
}

// What breaks a part is what breaks those above it, unless it is another image's.
func TestPartBreaksWhatIsAboveIt(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	below := newPart(nil, 0, 0, nil)
	below.finish(broken)
	above := newPart(nil, 0, 0, below)
	require.ErrorIs(t, above.ready(t.Context()), broken)

	above = newPart(nil, 0, 0, below)
	above.shared = true
	err := above.ready(t.Context())
	require.NotErrorIs(t, err, broken)
	require.EqualError(t, err, "layers that another image brings did not come: connection reset")
}

// A part is sent behind those before it, and not more than two ahead of what is unpacked. What takes it is started a part
// ahead of that.
func TestTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var parts []*part
		for range 4 {
			parts = append(parts, newPart(nil, 0, 0, nil))
		}
		waits := func(wait func(*part, context.Context, []*part) error, i int) bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return wait(parts[i], ctx, parts[:i]) != nil
		}
		require.False(t, waits((*part).next, 0))
		require.True(t, waits((*part).next, 1))
		require.False(t, waits((*part).turn, 0))
		require.False(t, waits((*part).next, 1), "the first is being sent")
		require.True(t, waits((*part).turn, 1))
		for _, p := range parts[:3] {
			close(p.sent)
		}
		require.False(t, waits((*part).turn, 1))
		require.False(t, waits((*part).turn, 2))
		require.False(t, waits((*part).next, 3))
		require.True(t, waits((*part).turn, 3), "the first is not unpacked yet")
		parts[0].finish(nil)
		require.False(t, waits((*part).turn, 3))
	})
}
