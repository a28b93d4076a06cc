//go:build linux

package stage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pullonce/pullonce/bench/internal/link"
	"github.com/pullonce/pullonce/internal/cachetest"
)

// Store is the cache service: the calls answered here, the blobs by an Azurite, both behind one line.
type Store struct {
	*link.Link
	service *cachetest.Service
	azurite *cachetest.Azurite
	kept    *kept
}

// StartStore starts a cache service whose files are in dir. modules is the node_modules folder that Azurite is in.
func StartStore(ctx context.Context, modules, dir string, o link.Options) (*Store, error) {
	azurite, err := cachetest.StartAzurite(ctx, cachetest.AzuriteOptions{Modules: modules, Dir: dir})
	if err != nil {
		return nil, err
	}
	s := &Store{azurite: azurite}
	s.service = cachetest.New(cachetest.Options{Blobs: signer{azurite, s}, Lifetime: 12 * time.Hour})
	mux := http.NewServeMux()
	mux.Handle("/twirp/", s.service)
	s.kept = &kept{store: &httputil.ReverseProxy{Rewrite: s.toAzurite}, url: func(name string) (string, error) {
		return azurite.Sign("", name, false, time.Now().Add(time.Hour))
	}}
	mux.Handle("/", s.kept)
	s.Link, err = link.Start(mux, o)
	if err != nil {
		return nil, errors.Join(err, azurite.Close())
	}
	return s, nil
}

// The names of this machine by which clients of the service say what kind of URL they want blobs by.
const (
	// hostPlain is for clients that take any host.
	hostPlain = "127.0.0.1"
	// hostAzure is for @actions/cache, which downloads in its fast way from a host of Azure's alone.
	hostAzure = "localhost"
)

// URL is what ACTIONS_RESULTS_URL is for a client; azure is for one that must see a host of Azure's, and resolves that to
// this machine itself.
func (s *Store) URL(azure bool) string {
	host := hostPlain
	if azure {
		host = hostAzure
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(s.Port())) + "/"
}

// Entries are the entries of the cache.
func (s *Store) Entries() []cachetest.Entry { return s.service.Entries() }

// Keep has the line serve from memory what Azurite has now, as long as nobody writes it anew.
func (s *Store) Keep(ctx context.Context) error { return s.kept.keep(ctx) }

// Close ends the service and Azurite.
func (s *Store) Close() error { return errors.Join(s.Link.Close(), s.azurite.Close()) }

// toAzurite sends a request on. Its host stays: Azurite reads the account from a host of Azure's.
func (s *Store) toAzurite(req *httputil.ProxyRequest) {
	signed, err := s.azurite.Sign("", "any", false, time.Now())
	if err != nil {
		return // the proxy answers 502
	}
	target, err := url.Parse(signed)
	if err != nil {
		return
	}
	req.Out.URL.Scheme, req.Out.URL.Host = target.Scheme, target.Host
	req.Out.Host = req.In.Host
}

// signer makes URLs of the line's near end. A signature covers account, container and name, and no host.
type signer struct {
	*cachetest.Azurite
	store *Store
}

var _ cachetest.Blobs = signer{}

// Sign implements cachetest.Blobs.
func (s signer) Sign(base, name string, write bool, until time.Time) (string, error) {
	signed, err := s.Azurite.Sign(base, name, write, until)
	if err != nil {
		return "", err
	}
	return nearEnd(signed, base, s.store.Port())
}

func nearEnd(signed, base string, port int) (string, error) {
	u, err := url.Parse(signed)
	if err != nil {
		return "", fmt.Errorf("reading a signed URL: %w", err)
	}
	u.Host = net.JoinHostPort(hostPlain, strconv.Itoa(port))
	if strings.HasPrefix(base, "http://"+hostAzure+":") {
		u.Host = net.JoinHostPort(cachetest.AzureHost, strconv.Itoa(port))
		account, _, _ := strings.Cut(cachetest.AzureHost, ".")
		u.Path = strings.TrimPrefix(u.Path, "/"+account)
	}
	return u.String(), nil
}
