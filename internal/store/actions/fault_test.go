package actions_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cachetest"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/store/actions"
)

// throttled asks for six seconds.
var throttled = regtest.Answer(http.StatusTooManyRequests, "application/json", "\xef\xbb\xbf"+`{"code":"resource_exhausted","msg":"rate limit"}`, "Retry-After", "6")

// passing are faults that another try cures, the wait before that try on the schedule of calls, and whether the call was
// answered at the other end.
var passing = map[string]struct {
	fault regtest.Fault
	wait  time.Duration
	made  bool
}{
	"429":           {throttled, 6 * time.Second, false},
	"429, no hint":  {regtest.Status(http.StatusTooManyRequests), 2500 * time.Millisecond, false},
	"500":           {regtest.Status(http.StatusInternalServerError), 2500 * time.Millisecond, false},
	"503 with BOM":  {regtest.Answer(http.StatusServiceUnavailable, "application/json", "\xef\xbb\xbf"+`{"code":"unavailable","msg":"later"}`), 2500 * time.Millisecond, false},
	"HTML for JSON": {regtest.HTML(), 2500 * time.Millisecond, false},
	"HTML of a 502": {regtest.Answer(http.StatusBadGateway, "text/html", "<html>Unicorn!</html>"), 2500 * time.Millisecond, false},
	"reset":         {regtest.Drop(), 2500 * time.Millisecond, false},
	"refused":       {regtest.Fail(syscall.ECONNREFUSED), 2500 * time.Millisecond, false},
	"cut answer":    {regtest.Truncate(3), 2500 * time.Millisecond, true},
	"hang":          {regtest.Hang(), 32500 * time.Millisecond, false},
	"stall":         {regtest.Stall(3), 32500 * time.Millisecond, true},
	"one 403":       {regtest.Status(http.StatusForbidden), 2500 * time.Millisecond, false},
}

func TestCallsAreTriedAgainOnTheSchedule(t *testing.T) {
	t.Parallel()
	for name, tc := range passing {
		for _, op := range []cachetest.Op{cachetest.Create, cachetest.Finalize, cachetest.Lookup} {
			t.Run(name+" of "+string(op), func(t *testing.T) {
				t.Parallel()
				bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
					c.Script(op, tc.fault)
					img := imagetest.New(t, small)
					took := elapsed(func() { require.NoError(t, s.Save(t.Context(), key, img)) })
					require.Equal(t, tc.wait, took)
					if want := key; tc.made && op == cachetest.Create {
						require.Equal(t, []string{want + ".1"}, keys(c), "the reservation was made, and its URL is lost")
					} else {
						require.Equal(t, []string{want}, keys(c))
					}
					_, err := s.Stat(t.Context(), key)
					require.NoError(t, err)
				})
			})
		}
	}
}

func TestAThrottleIsNeverAMiss(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		c.Always(cachetest.Lookup, throttled)
		for how, look := range looks(s) {
			err := look(t)
			require.NotErrorIs(t, err, store.ErrNotFound, how)
			require.ErrorContains(t, err, "throttled", how)
			require.ErrorContains(t, err, "resource_exhausted: rate limit", how)
		}
	})
}

// Those who were not told to wait wait with the one that was.
func TestAThrottleHoldsAllCallsBack(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		primed(t, c, s, small)
		c.Script(cachetest.Lookup, throttled)
		began := time.Now()
		_, err := s.Stat(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, 6*time.Second, time.Since(began))

		c.Script(cachetest.Lookup, throttled)
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				_, err := s.Stat(t.Context(), key)
				require.NoError(t, err)
			})
		}
		all.Wait()
		for _, r := range c.Requests(cachetest.Lookup)[3:] {
			require.GreaterOrEqual(t, r.At.Sub(began), 12*time.Second)
		}
		require.Len(t, c.Requests(cachetest.Lookup), 8)
	})
}

func TestWhatCannotPassIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	for status, tries := range map[int]int{
		http.StatusBadRequest: 1, http.StatusNotFound: 1, http.StatusNotImplemented: 1, http.StatusUnauthorized: 3, http.StatusForbidden: 3,
	} {
		bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
			c.Always(cachetest.Lookup, regtest.Answer(status, "application/json", `{"code":"x","msg":"no\n::error::of theirs"}`))
			_, err := s.Stat(t.Context(), key)
			require.ErrorContains(t, err, "x: no ::error::of theirs")
			require.NotErrorIs(t, err, store.ErrNotFound)
			require.Len(t, c.Requests(), tries, status)
		})
	}
}

func TestASavedEntryIsSuccessForWhoeverComesLate(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		primed(t, c, s, small)
		before := c.Entries()
		require.NoError(t, s.Save(t.Context(), key, imagetest.New(t, small)))
		require.Equal(t, before, c.Entries())
		require.Empty(t, c.Requests(cachetest.PutBlob, cachetest.Finalize))
	})
}

func TestAStuckReservationIsPassedByTheNextGeneration(t *testing.T) {
	t.Parallel()
	for stuck := 1; stuck <= 3; stuck++ {
		bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
			for n := range stuck {
				c.Reserve(store.Generation(key, n), actions.Version(key))
			}
			img := imagetest.New(t, small)
			took := elapsed(func() { require.NoError(t, s.Save(t.Context(), key, img)) })
			require.Equal(t, time.Duration(stuck)*20*time.Second, took, "each is given the time to become an entry")
			require.Equal(t, []string{store.Generation(key, stuck)}, keys(c))
			e, err := s.Stat(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, stuck, e.Generation)
		})
	}
}

func TestWhereEveryGenerationIsStuckSaveFails(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		for n := range 4 {
			c.Reserve(store.Generation(key, n), actions.Version(key))
		}
		require.ErrorContains(t, s.Save(t.Context(), key, imagetest.New(t, small)), "is reserved and none of them is there")
		require.Empty(t, c.Entries())
	})
}

// A reservation whose answer was lost is our own: nobody need be waited for.
func TestAReservationThatWasNotHeardOfIsPassedAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		c.Script(cachetest.Create, lost)
		img := imagetest.New(t, small)
		took := elapsed(func() { require.NoError(t, s.Save(t.Context(), key, img)) })
		require.Equal(t, 2500*time.Millisecond, took)
		require.Equal(t, []string{key + ".1"}, keys(c))
	})
}

func TestAPublicationThatWasNotHeardOfCounts(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		c.Script(cachetest.Finalize, lost)
		require.NoError(t, s.Save(t.Context(), key, imagetest.New(t, small)))
		require.Equal(t, []string{key}, keys(c))
	})
}

func TestAPublicationThatIsRefusedIsAnError(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		c.Always(cachetest.Finalize, regtest.Answer(http.StatusOK, "application/json", `{"ok":false,"message":"over quota"}`))
		require.ErrorContains(t, s.Save(t.Context(), key, imagetest.New(t, small)), "over quota")
	})
}

func TestTwoPrimesRacingMakeOneEntry(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		other := open(t, c, actions.Options{})
		c.Script(cachetest.PutBlob, regtest.Delay(15*time.Second))
		img := imagetest.New(t, small)
		var both sync.WaitGroup
		for _, s := range []*actions.Store{s, other} {
			both.Go(func() { require.NoError(t, s.Save(t.Context(), key, img)) })
		}
		both.Wait()
		require.Equal(t, []string{key}, keys(c))
	})
}

func TestNothingIsReservedBeforeTheWholeImageIsVerified(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, blob := range map[string]imagetest.Source{
		"broken": func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) { return nil, broken },
		"wrong": func(_ context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
			return io.NopCloser(io.LimitReader(zeros{}, d.Size)), nil
		},
	} {
		c := cachetest.New(cachetest.Options{})
		dir := t.TempDir()
		s := open(t, c, actions.Options{SpoolDir: dir})
		parts := imagetest.Parts(t, small)
		parts.Source = blob
		img, err := image.New(parts)
		require.NoError(t, err)
		require.Error(t, s.Save(t.Context(), key, img), name)
		require.Empty(t, c.Requests(), name)
		requireEmpty(t, dir)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestTheSpoolIsFreed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := cachetest.New(cachetest.Options{})
		dir := t.TempDir()
		s := open(t, c, actions.Options{SpoolDir: dir})
		c.Script(cachetest.PutBlob, func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			requireEmpty(t, dir) // already: what is killed leaves nothing behind
			next.ServeHTTP(w, req)
		})
		require.NoError(t, s.Save(t.Context(), key, imagetest.New(t, small)))
		c.Always(cachetest.PutBlob, regtest.Status(http.StatusBadRequest))
		require.Error(t, s.Save(t.Context(), key+"0", imagetest.New(t, small)))
		requireEmpty(t, dir)
	})
}

func TestSaveReturnsOnceItsEntryIsVisible(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{Delay: 30 * time.Second}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		img := imagetest.New(t, small)
		took := elapsed(func() { require.NoError(t, s.Save(t.Context(), key, img)) })
		require.InDelta(t, 31, took.Seconds(), 1.5)
		_, err := s.Stat(t.Context(), key)
		require.NoError(t, err)
		require.LessOrEqual(t, len(c.Requests(cachetest.Lookup)), 16)
	})
}

func TestAnEntryThatNeverShowsUpIsAnError(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{Delay: time.Hour}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		took := elapsed(func() {
			require.ErrorContains(t, s.Save(t.Context(), key, imagetest.New(t, small)), "it was saved and can't be looked up")
		})
		require.InDelta(t, 120, took.Seconds(), 2)
	})
}

func TestAKeyKnownToBeSavedIsLookedUpAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		saved     bool
		delay     time.Duration
		miss      bool
		from, to  time.Duration
		mostCalls int
	}{
		"not known": {false, 10 * time.Second, true, 0, 0, 1},
		"late":      {true, 10 * time.Second, false, 10 * time.Second, 13 * time.Second, 8},
		"too late":  {true, time.Hour, true, 20 * time.Second, 20 * time.Second, 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := cachetest.New(cachetest.Options{})
				img := primed(t, c, open(t, c, actions.Options{}), small)
				c.Hide(key, tc.delay)
				lane := open(t, c, actions.Options{Saved: func(k string) bool { return tc.saved && k == key }})
				began := time.Now()
				got, err := lane.Open(t.Context(), key)
				took := time.Since(began)
				require.GreaterOrEqual(t, took, tc.from)
				require.LessOrEqual(t, took, tc.to)
				require.LessOrEqual(t, len(c.Requests(cachetest.Lookup)), tc.mostCalls)
				if tc.miss {
					require.ErrorIs(t, err, store.ErrNotFound)
					require.ErrorContains(t, err, actions.Version(key))
					return
				}
				require.NoError(t, err)
				require.Equal(t, img.Manifest(), got.Manifest())
			})
		})
	}
}

func TestLanesThatStartAtOnceSpreadTheirFirstLookup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := cachetest.New(cachetest.Options{})
		primed(t, c, open(t, c, actions.Options{}), small)
		policy := schedule
		policy.Jitter = func() float64 { return 0.5 }
		lane, err := actions.New(actions.Options{
			ResultsURL: "https://" + cachetest.Host, Token: cachetest.Token, Transport: c.Transport(), Policy: policy, Stagger: 4 * time.Second,
		})
		require.NoError(t, err)
		stat := func() { _, err := lane.Stat(t.Context(), key); require.NoError(t, err) }
		require.Equal(t, 2*time.Second, elapsed(stat))
		require.Zero(t, elapsed(stat), "only the first")
	})
}

// rangeFaults are ways in which a range may not come, and what its next try waits for.
var rangeFaults = map[string]regtest.Fault{
	"reset":          regtest.Reset(1000),
	"truncated":      regtest.Truncate(1000),
	"shorter":        regtest.Resize(-1000),
	"dropped":        regtest.Drop(),
	"stalled":        regtest.Stall(1000),
	"hung":           regtest.Hang(),
	"corrupt":        regtest.Flip(1_000_000),
	"corrupt at 0":   regtest.Flip(0),
	"busy":           regtest.Answer(http.StatusServiceUnavailable, "application/xml", "<Error/>", "Retry-After", "3"),
	"internal error": regtest.Status(http.StatusInternalServerError),
	"HTML":           regtest.HTML(),
	"one 403":        regtest.Status(http.StatusForbidden),
}

func TestARangeThatDoesNotComeWholeIsReadAgain(t *testing.T) {
	t.Parallel()
	for name, fault := range rangeFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
				img := primed(t, c, s, large)
				c.Script(cachetest.GetBlob, regtest.Pass, fault, regtest.Pass, fault)
				got, err := s.Open(t.Context(), key)
				require.NoError(t, err)
				took := elapsed(func() { require.Equal(t, encoded(t, img), encoded(t, got)) })
				require.Less(t, took, 70*time.Second)
			})
		})
	}
}

// The first range is the head.
func TestAHeadThatDoesNotComeWholeIsReadAgain(t *testing.T) {
	t.Parallel()
	for name, fault := range rangeFaults {
		if name == "corrupt" {
			continue // the head is shorter
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
				img := primed(t, c, s, small)
				c.Script(cachetest.GetBlob, fault)
				got, err := s.Open(t.Context(), key)
				require.NoError(t, err)
				require.Equal(t, encoded(t, img), encoded(t, got))
			})
		})
	}
}

func TestAnExpiredURLIsFetchedAnew(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{Lifetime: 10 * time.Minute}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		img := primed(t, c, s, large)
		got, err := s.Open(t.Context(), key)
		require.NoError(t, err)
		for range 3 {
			time.Sleep(time.Hour)
			c.Forget()
			require.Zero(t, elapsed(func() { require.Equal(t, encoded(t, img), encoded(t, got)) }), "at once")
			require.Len(t, c.Requests(cachetest.Lookup), 1, "once for all ranges")
		}
	})
}

func TestAnExpiredURLOfAnEntryThatIsGoneIsAMiss(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		primed(t, c, s, large)
		got, err := s.Open(t.Context(), key)
		require.NoError(t, err)
		c.Evict(key, true)
		c.Put(key+"0", actions.Version(key), []byte("another entry"))
		c.ExpireURLs()
		require.ErrorIs(t, image.Verify(t.Context(), got), store.ErrNotFound)
	})
}

func TestAnEvictedBlobIsAMiss(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		primed(t, c, s, small)
		c.Evict(key, false)
		for how, look := range looks(s) {
			require.ErrorIs(t, look(t), store.ErrNotFound, how)
		}
	})
}

func TestACorruptEntryIsSaidToBeOne(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func([]byte) []byte{
		"cut":   func(data []byte) []byte { return data[:len(data)/2] },
		"empty": func([]byte) []byte { return []byte{} },
		"text":  func([]byte) []byte { return []byte("<html>") },
		"index": func(data []byte) []byte { data[30] ^= 1; return data },
	} {
		bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
			primed(t, c, s, small)
			c.Spoil(key, spoil)
			_, err := s.Open(t.Context(), key)
			require.ErrorIs(t, err, store.ErrCorrupt, name)
		})
	}
}

func TestALayerThatIsCorruptWhereItLiesIsNeverTaken(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		primed(t, c, s, large)
		c.Spoil(key, func(data []byte) []byte { data[len(data)/2] ^= 1; return data })
		got, err := s.Open(t.Context(), key)
		require.NoError(t, err)
		require.ErrorIs(t, image.Verify(t.Context(), got), store.ErrCorrupt)
	})
}

func TestUploadsAreTriedAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		o  imagetest.Options
		op cachetest.Op
	}{
		"whole":  {small, cachetest.PutBlob},
		"blocks": {large, cachetest.PutBlock},
		"list":   {large, cachetest.PutBlockList},
	} {
		for what, fault := range map[string]regtest.Fault{
			"reset": regtest.Drop(), "500": regtest.Status(http.StatusInternalServerError), "hang": regtest.Hang(), "lost": lost,
			"busy": regtest.Answer(http.StatusServiceUnavailable, "application/xml", "<Error/>", "Retry-After", "3"),
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
					c.Script(tc.op, fault)
					img := primed(t, c, s, tc.o)
					got, err := s.Open(t.Context(), key)
					require.NoError(t, err)
					require.Equal(t, encoded(t, img), encoded(t, got))
				})
			})
		}
	}
}

// Only a reservation has an upload URL, so that an entry whose URL has expired needs another key.
func TestAnUploadURLThatExpiresCostsAGeneration(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		c.Script(cachetest.PutBlock, regtest.Pass, func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			c.ExpireURLs()
			next.ServeHTTP(w, req)
		})
		require.NoError(t, s.Save(t.Context(), key, imagetest.New(t, large)))
		require.Equal(t, []string{key + ".1"}, keys(c))
	})
}

func TestWorkEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, op := range []cachetest.Op{cachetest.Create, cachetest.PutBlob, cachetest.Finalize, cachetest.Lookup} {
		bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
			c.Always(op, regtest.Hang())
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			took := elapsed(func() { require.ErrorIs(t, s.Save(ctx, key, imagetest.New(t, small)), context.Canceled) })
			require.Equal(t, time.Second, took, op)
		})
	}
}
