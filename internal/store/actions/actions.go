// Package actions keeps images in the GitHub Actions cache, by version 2 of its service. It owns that protocol, the
// transfer to and from the blob store behind it, and what a reservation, a late or a denied entry means for a key. What
// an entry looks like belongs to package entry. It does not know targets, registries or the runner's environment.
package actions

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/retry"
	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/store/actions/entry"
)

// Options say which cache, and how to be with it. ResultsURL and Token are needed; everything else may be left out.
type Options struct {
	// ResultsURL and Token are ACTIONS_RESULTS_URL and ACTIONS_RUNTIME_TOKEN. Of the URL only the origin is used.
	ResultsURL, Token string
	// CacheMode is ACTIONS_CACHE_MODE: none, read, write or write-only. Anything else allows what the token allows.
	CacheMode string
	// Transport carries all requests; by default one that keeps as many connections as ranges are under way.
	Transport http.RoundTripper
	// Policy is the schedule of calls to the service, over 10 min by default; transfers are on it too, with a first wait
	// of a second.
	Policy retry.Policy
	// SpoolDir is where Save keeps an image whose own source can't have it at hand, until it is uploaded; the system's
	// temporary folder by default.
	SpoolDir string
	// Mask is told of each secret before it can get anywhere near a log: the signatures of URLs. It may be nil.
	Mask func(secret string)
	// Concurrency is how many ranges are read ahead, of all entries together; 6 by default. Each takes 4 MiB.
	Concurrency int
	// Blocks is how many blocks are made and sent at a time, of all entries together; 5 by default. Each takes 6 MiB.
	Blocks int
	// Saved says of a key whether it is known that somebody has saved it in this run. Such a key is looked up again
	// for VisibilityWait before it counts as a miss. It may be nil.
	Saved func(key string) bool
	// VisibilityWait is how long an entry that was saved by another job may take to show up; 20 s by default.
	VisibilityWait time.Duration
	// SettleWait is how long Save waits for its own entry to show up; 2 min by default.
	SettleWait time.Duration
	// Stagger is the time over which processes that start at once spread their first look-up; none by default.
	Stagger time.Duration
}

// Store is a store.Store in the Actions cache. Safe for concurrent use.
type Store struct {
	options Options
	access  access
	service *service
	storage storage
	reader  *entry.Reader
	writer  *entry.Writer
	start   time.Time // of the first look-up
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Proving = (*Store)(nil)
)

// New is the store. Nothing is sent yet.
func New(o Options) (*Store, error) {
	origin, err := url.Parse(o.ResultsURL)
	switch {
	case err != nil || origin.Host == "":
		return nil, fmt.Errorf("the Actions cache needs the URL of its service, not %q", o.ResultsURL)
	case o.Token == "":
		return nil, errors.New("the Actions cache needs the runtime token")
	}
	o = o.withDefaults()
	reader, err := entry.NewReader(o.Concurrency)
	if err != nil {
		return nil, err
	}
	writer, err := entry.NewWriter()
	if err != nil {
		return nil, err
	}
	transport := watched{o.Transport}
	transfers := o.Policy
	transfers.First = time.Second
	return &Store{
		options: o,
		access:  parseAccess(o.Token, o.CacheMode),
		service: &service{
			base: origin.Scheme + "://" + origin.Host + servicePath, token: o.Token, transport: transport, policy: o.Policy, mask: o.Mask,
		},
		storage: storage{transport: transport, policy: transfers, buffers: newBuffers(o.Blocks)},
		writer:  writer,
		reader:  reader,
		start:   time.Now().Add(time.Duration(o.Policy.Jitter() * float64(o.Stagger))),
	}, nil
}

func (o Options) withDefaults() Options {
	if o.Transport == nil {
		o.Transport = newTransport()
	}
	if o.Mask == nil {
		o.Mask = func(string) {}
	}
	if o.Saved == nil {
		o.Saved = func(string) bool { return false }
	}
	if o.Policy.Jitter == nil {
		o.Policy.Jitter = rand.Float64
	}
	o.Policy.Timeout = cmp.Or(o.Policy.Timeout, 10*time.Minute)
	o.Concurrency = cmp.Or(o.Concurrency, 6)
	o.Blocks = cmp.Or(o.Blocks, 5)
	o.VisibilityWait = cmp.Or(o.VisibilityWait, 20*time.Second)
	o.SettleWait = cmp.Or(o.SettleWait, 2*time.Minute)
	return o
}

// Writable says whether Save can succeed, by what the token and the mode say, and if not, why. Nothing is sent.
func (s *Store) Writable(context.Context) (ok bool, reason string) {
	reason = s.access.readOnly
	return reason == "", reason
}

// Stat implements store.Store, by one look-up for all generations. A miss names key, version and scope.
func (s *Store) Stat(ctx context.Context, key string) (store.Entry, error) {
	e, err := s.stat(ctx, key)
	if err != nil {
		return store.Entry{}, fmt.Errorf("looking %s up in the Actions cache: %w", key, err)
	}
	return e, nil
}

func (s *Store) stat(ctx context.Context, key string) (store.Entry, error) {
	found, err := s.find(ctx, key)
	if err != nil {
		return store.Entry{}, err
	}
	size, saved, err := found.head(ctx)
	if err != nil {
		return store.Entry{}, err
	}
	return store.Entry{Key: key, Generation: found.generation, Size: size, Saved: saved}, nil
}

// Open implements store.Store, by one look-up and, as a rule, one range.
func (s *Store) Open(ctx context.Context, key string) (image.Image, error) {
	img, err := s.open(ctx, key)
	if err != nil {
		return image.Image{}, fmt.Errorf("opening %s in the Actions cache: %w", key, err)
	}
	return img, nil
}

func (s *Store) open(ctx context.Context, key string) (image.Image, error) {
	found, err := s.find(ctx, key)
	if err != nil {
		return image.Image{}, err
	}
	prefix, err := found.prefix(ctx, entry.PrefixSize)
	if err != nil {
		return image.Image{}, err
	}
	return s.reader.Open(ctx, found, prefix, key)
}

// Version is the service's name for what an entry is: actions/cache makes it of the literal paths it keeps, the
// compression, and a salt (getCacheVersion in @actions/cache).
func Version(key string) string {
	sum := sha256.Sum256([]byte(entry.Path(key) + "|zstd-without-long|1.0"))
	return hex.EncodeToString(sum[:])
}
