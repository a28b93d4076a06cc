package actions_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cachetest"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/retry"
	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/store/actions"
)

const key = "pullonce-v1-test-linux-amd64-0123456789abcdef"

// With no jitter the schedule waits half of 5 s, 10 s, 20 s and then of 30 s. Transfers begin with half a second.
var schedule = retry.Policy{Timeout: time.Minute, Jitter: func() float64 { return 0 }}

// small fits into one block and one range, large needs several.
var (
	small = imagetest.Options{Layers: 2, Index: true}
	large = imagetest.Options{Layers: 3, LayerSize: 5 << 20}
)

// bubble runs f where time is fake, with a cache and a store on it.
func bubble(t *testing.T, service cachetest.Options, f func(t *testing.T, c *cachetest.Service, s *actions.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := cachetest.New(service)
		f(t, c, open(t, c, actions.Options{}))
	})
}

// open makes a store on c; what o leaves out is filled in.
func open(t *testing.T, c *cachetest.Service, o actions.Options) *actions.Store {
	t.Helper()
	o.ResultsURL = "https://" + cachetest.Host + "/some/path"
	if o.Token == "" {
		o.Token = cachetest.Token
	}
	if o.Transport == nil {
		o.Transport = c.Transport()
	}
	if o.SpoolDir == "" {
		o.SpoolDir = t.TempDir()
	}
	o.Policy = schedule
	s, err := actions.New(o)
	require.NoError(t, err)
	return s
}

// primed is a cache with img under key, and a log that is empty.
func primed(t *testing.T, c *cachetest.Service, s *actions.Store, o imagetest.Options) image.Image {
	t.Helper()
	img := imagetest.New(t, o)
	require.NoError(t, s.Save(t.Context(), key, img))
	c.Forget()
	return img
}

func encoded(t *testing.T, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, image.Encode(t.Context(), &b, img))
	return b.Bytes()
}

// token is a runtime token with these scopes.
func token(t *testing.T, scopes ...map[string]any) string {
	t.Helper()
	list, err := json.Marshal(scopes)
	require.NoError(t, err)
	claims, err := json.Marshal(map[string]any{"ac": string(list)})
	require.NoError(t, err)
	return "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".c2ln"
}

func keys(c *cachetest.Service) []string {
	var all []string
	for _, e := range c.Entries() {
		all = append(all, e.Key)
	}
	return all
}

// elapsed is how long f takes.
func elapsed(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]imagetest.Options{"small": small, "large": large, "no layer": {Layers: -1}} {
		for _, camel := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, camelCase %t", name, camel), func(t *testing.T) {
				t.Parallel()
				bubble(t, cachetest.Options{CamelCase: camel}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
					img := primed(t, c, s, o)
					require.Equal(t, []string{key}, keys(c))

					got, err := s.Open(t.Context(), key)
					require.NoError(t, err)
					require.NoError(t, got.Is(img.Reference(), img.Platform()))
					require.Len(t, c.Requests(), 2, "a look-up and a range")
					require.Equal(t, encoded(t, img), encoded(t, got))
				})
			})
		}
	}
}

// The hash was made by getCacheVersion of @actions/cache 6.3.0 for the path ".pullonce/" + key.
func TestVersionIsThatOfActionsCache(t *testing.T) {
	t.Parallel()
	const want = "0855eae167a4f2f374962fffeaae1eb808454474600810135b4d1ac6f415d799"
	require.Equal(t, want, actions.Version(key))
	require.Equal(t, want, actions.Version(key+".2"), "a generation changes the key only")
}

func TestAWarmPrimeLooksUpOnceAndMovesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		primed(t, c, s, large)
		saved := time.Now()
		time.Sleep(time.Hour - time.Minute)
		e, err := s.Stat(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, key, e.Key)
		require.Zero(t, e.Generation)
		require.Equal(t, c.Entries()[0].Size, e.Size)
		require.WithinDuration(t, saved, e.Saved, 2*time.Second)
		require.Len(t, c.Requests(cachetest.Lookup), 1)
		require.Len(t, c.Requests(cachetest.HeadBlob), 1)
		require.Len(t, c.Requests(), 2)
	})
}

func TestAMissNamesKeyVersionAndScope(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		for _, look := range looks(s) {
			err := look(t)
			require.ErrorIs(t, err, store.ErrNotFound)
			for _, part := range []string{key, actions.Version(key), "refs/heads/main"} {
				require.ErrorContains(t, err, part)
			}
		}
	})
}

// looks are the ways to look key up.
func looks(s *actions.Store) map[string]func(t *testing.T) error {
	return map[string]func(t *testing.T) error{
		"stat": func(t *testing.T) error { _, err := s.Stat(t.Context(), key); return err },
		"open": func(t *testing.T) error { _, err := s.Open(t.Context(), key); return err },
	}
}

func TestTheNewestGenerationIsTakenByOneLookup(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		for n := range 4 {
			img := imagetest.New(t, imagetest.Options{Seed: uint64(n)})
			require.NoError(t, s.Save(t.Context(), store.Generation(key, n), img))
			c.Forget()
			e, err := s.Stat(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, n, e.Generation)
			require.Equal(t, key, e.Key)
			require.Len(t, c.Requests(cachetest.Lookup), 1)
			got, err := s.Open(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, img.Manifest(), got.Manifest())
		}
		require.Equal(t, []string{key, key + ".1", key + ".2", key + ".3"}, keys(c))
	})
}

func TestALongerKeyIsNeverTaken(t *testing.T) {
	t.Parallel()
	for _, longer := range []string{key + "0", key + ".4", key + ".01", key + ".1.1", key + "-x"} {
		bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
			c.Put(longer, actions.Version(key), []byte("something else"))
			_, err := s.Open(t.Context(), key)
			require.ErrorIs(t, err, store.ErrNotFound, longer)

			img := primed(t, c, s, small)
			c.Put(longer+"1", actions.Version(key), []byte("something newer"))
			got, err := s.Open(t.Context(), key)
			require.NoError(t, err, longer)
			require.Equal(t, img.Manifest(), got.Manifest())
		})
	}
}

// The service is free to answer with what only begins like a key of ours although ours is there.
func TestALongerKeyDoesNotHideOurs(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		img := primed(t, c, s, small)
		c.Script(cachetest.Lookup, regtest.Answer(http.StatusOK, "application/json",
			`{"ok":true,"signed_download_url":"https://`+cachetest.Host+`/blobs/container/x?sig=x","matched_key":"`+key+`-longer"}`))
		got, err := s.Open(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, img.Manifest(), got.Manifest())
	})
}

func TestOfTheURLOnlyTheOriginIsUsed(t *testing.T) {
	t.Parallel()
	_, err := actions.New(actions.Options{ResultsURL: "not a url", Token: "t"})
	require.ErrorContains(t, err, `not "not a url"`)
	_, err = actions.New(actions.Options{ResultsURL: "https://results.test/"})
	require.ErrorContains(t, err, "runtime token")
}

func TestReadOnlyIsKnownBeforeALayerIsRead(t *testing.T) {
	t.Parallel()
	reader := map[string]any{"Scope": "refs/pull/1/merge", "Permission": 1}
	for name, tc := range map[string]struct {
		token, mode string
		reason      string
	}{
		"token":         {token(t, reader, map[string]any{"Scope": "refs/heads/main", "Permission": 1}), "", "the run's token may only read the cache (refs/pull/1/merge, refs/heads/main)"},
		"mode":          {"", "read", `cache-mode is "read"`},
		"no cache":      {"", " NONE ", `cache-mode is "none"`},
		"both allow":    {token(t, reader, map[string]any{"Scope": "refs/heads/main", "Permission": 3}), "write", ""},
		"unknown mode":  {"", "sometimes", ""},
		"opaque token":  {"opaque", "", ""},
		"broken token":  {"a.b.c", "", ""},
		"no such claim": {"e30.e30.e30", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cachetest.New(cachetest.Options{})
			s := open(t, c, actions.Options{Token: tc.token, CacheMode: tc.mode})
			ok, reason := s.Writable(t.Context())
			require.Equal(t, tc.reason == "", ok)
			require.Equal(t, tc.reason, reason)
			if ok {
				return
			}
			img := imagetest.New(t, small).Observe(func(int) { t.Error("a layer was read") })
			err := s.Save(t.Context(), key, img)
			require.ErrorIs(t, err, store.ErrReadOnly)
			require.ErrorContains(t, err, tc.reason)
			require.Empty(t, c.Requests())
		})
	}
}

func TestADeniedReservationIsReadOnly(t *testing.T) {
	t.Parallel()
	denied := regtest.Answer(http.StatusForbidden, "application/json", `{"code":"permission_denied","msg":"cache write denied: no"}`)
	asError := cachetest.New(cachetest.Options{})
	asError.Always(cachetest.Create, denied)
	for name, c := range map[string]*cachetest.Service{
		"as an answer": cachetest.New(cachetest.Options{ReadOnly: true}),
		"as an error":  asError,
	} {
		err := open(t, c, actions.Options{}).Save(t.Context(), key, imagetest.New(t, small))
		require.ErrorIs(t, err, store.ErrReadOnly, name)
		require.ErrorContains(t, err, "cache write denied", name)
		require.Len(t, c.Requests(cachetest.Create), 1, name)
	}
}

func TestACacheThatMayNotBeReadIsNoMiss(t *testing.T) {
	t.Parallel()
	c := cachetest.New(cachetest.Options{})
	c.Always(cachetest.Lookup, regtest.Answer(http.StatusForbidden, "application/json", `{"code":"permission_denied","msg":"cache read denied: no scope"}`))
	for name, s := range map[string]*actions.Store{
		"the service": open(t, c, actions.Options{}),
		"the mode":    open(t, c, actions.Options{CacheMode: "write-only"}),
		"the token":   open(t, c, actions.Options{Token: token(t, map[string]any{"Scope": "s", "Permission": 2})}),
	} {
		for how, look := range looks(s) {
			err := look(t)
			require.Error(t, err, name+how)
			require.NotErrorIs(t, err, store.ErrNotFound, name+how)
		}
	}
	require.Len(t, c.Requests(), 2, "one try each, and only where nothing was known before")
}

// Signatures are masked before they are used, as the URL spells them and as they read.
func TestSignaturesAreMaskedBeforeTheyAreUsed(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, _ *actions.Store) {
		var masked secrets
		s := open(t, c, actions.Options{Mask: masked.add, Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			for pair := range strings.SplitSeq(req.URL.RawQuery, "&") {
				if escaped, ok := strings.CutPrefix(pair, "sig="); ok {
					require.Contains(t, masked.all(), escaped)
					require.Contains(t, masked.all(), req.URL.Query().Get("sig"))
				}
			}
			return c.Transport().RoundTrip(req)
		})})
		primed(t, c, s, large)
		_, err := s.Open(t.Context(), key)
		require.NoError(t, err)
		require.Len(t, masked.all(), 6, "of an upload, of the look-up after it, and of the entry that was opened")
	})
}

func TestSignaturesAreInNoError(t *testing.T) {
	t.Parallel()
	bubble(t, cachetest.Options{}, func(t *testing.T, c *cachetest.Service, s *actions.Store) {
		primed(t, c, s, small)
		var masked secrets
		s = open(t, c, actions.Options{Mask: masked.add, Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Query().Get("sig") != "" {
				return nil, fmt.Errorf("%s %q: broken", req.Method, req.URL)
			}
			return c.Transport().RoundTrip(req)
		})})
		_, opening := s.Open(t.Context(), key)
		for _, err := range []error{opening, s.Save(t.Context(), key+"0", imagetest.New(t, small))} {
			require.ErrorContains(t, err, "broken")
			for _, secret := range masked.all() {
				require.NotContains(t, err.Error(), secret)
			}
		}
		require.NotEmpty(t, masked.all())
	})
}

// secrets are what was masked. Safe for concurrent use.
type secrets struct {
	mu   sync.Mutex
	list []string
}

func (s *secrets) add(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, secret)
}

func (s *secrets) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// lost is an answer that is made and never arrives.
func lost(w http.ResponseWriter, req *http.Request, next http.Handler) {
	next.ServeHTTP(httptest.NewRecorder(), req)
	regtest.Drop()(w, req, next)
}
