// Package cachetest is a GitHub Actions cache service for tests: version 2 of its protocol, with the blob store behind
// it in memory or in an Azurite. It keeps a log of every request, and misbehaves by script. It knows nothing else of
// pullonce, so what it reports is evidence.
//
// A Service is an http.Handler. Transport puts a client in front of it without a network, which is what
// testing/synctest needs; Start puts it on a loopback listener.
package cachetest

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pullonce/pullonce/internal/regtest"
)

// Op is a kind of request: a method of the service, or an operation of the blob store.
type Op string

// The kinds of request.
const (
	Create   Op = "CreateCacheEntry"
	Finalize Op = "FinalizeCacheEntryUpload"
	Lookup   Op = "GetCacheEntryDownloadURL"

	PutBlob      Op = "Put Blob"
	PutBlock     Op = "Put Block"
	PutBlockList Op = "Put Block List"
	GetBlob      Op = "Get Blob"
	HeadBlob     Op = "Get Blob Properties"
)

// Host is where Transport answers.
const Host = "results.test"

// Token is a runtime token that may read and write; the service takes any.
const Token = "header.eyJhYyI6Ilt7XCJTY29wZVwiOlwicmVmcy9oZWFkcy9tYWluXCIsXCJQZXJtaXNzaW9uXCI6M31dIn0.signature"

// Blobs is a blob store behind the service. Safe for concurrent use.
type Blobs interface {
	// Sign makes a URL for the blob, to write or to read, good until then. base is the origin of the service.
	Sign(base, name string, write bool, until time.Time) (string, error)
	// Size is how many bytes the blob has; 0 where it is not there.
	Size(ctx context.Context, name string) (int64, error)
}

// Options say what kind of service it is. The zero value keeps blobs in memory and shows entries at once.
type Options struct {
	// Blobs keeps the blobs; nil keeps them in memory, served by the Service itself.
	Blobs Blobs
	// ReadOnly denies every Create, as for a run that is not trusted.
	ReadOnly bool
	// CamelCase spells the fields of answers as protobuf's JSON does.
	CamelCase bool
	// Delay is how long an entry that was published can't be looked up yet.
	Delay time.Duration
	// Lifetime is how long signed URLs are good; an hour where it is zero.
	Lifetime time.Duration
}

// Service is an in-process cache service. Safe for concurrent use.
type Service struct {
	options Options
	memory  *memory // nil where blobs are elsewhere

	mu      sync.Mutex
	entries []*record
	serial  int
	rules   []*rule
	log     []Request
}

var _ http.Handler = (*Service)(nil)

// Request is a request that came.
type Request struct {
	Op  Op
	Key string // of calls; the first one asked for
	At  time.Time
}

// New makes an empty cache.
func New(o Options) *Service {
	s := &Service{options: o}
	if o.Blobs == nil {
		s.memory = newMemory()
		s.options.Blobs = s.memory
	}
	if o.Lifetime == 0 {
		s.options.Lifetime = time.Hour
	}
	return s
}

// ServeHTTP implements http.Handler: the request is logged, meets the faults scripted for it, and is answered.
func (s *Service) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if method, ok := strings.CutPrefix(req.URL.Path, twirpPath); ok {
		s.serveCall(w, req, Op(method))
		return
	}
	if s.memory == nil || !strings.HasPrefix(req.URL.Path, memoryPath) {
		http.NotFound(w, req)
		return
	}
	s.note(opOf(req), "")(w, req, s.memory)
}

// note logs a request and gives the fault that is scripted for it.
func (s *Service) note(op Op, key string) regtest.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, Request{Op: op, Key: key, At: time.Now()})
	for _, r := range s.rules {
		if r.op != op || len(r.left) == 0 {
			continue
		}
		f := r.left[0]
		if !r.forever {
			r.left = r.left[1:]
		}
		return f
	}
	return regtest.Pass
}

type rule struct {
	op      Op
	left    []regtest.Fault
	forever bool
}

// Script gives the first request of a kind the first fault, the second the second, and so on; later ones are served
// well.
func (s *Service) Script(op Op, faults ...regtest.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, &rule{op: op, left: faults})
}

// Always gives every request of a kind the fault.
func (s *Service) Always(op Op, f regtest.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, &rule{op: op, left: []regtest.Fault{f}, forever: true})
}

// Requests are those of some kinds, or all, in the order they came.
func (s *Service) Requests(ops ...Op) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Request
	for _, r := range s.log {
		if len(ops) == 0 || slices.Contains(ops, r.Op) {
			found = append(found, r)
		}
	}
	return found
}

// Forget empties the log.
func (s *Service) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = nil
}

// ExpireURLs makes every signed URL that was handed out invalid. It is for blobs in memory.
func (s *Service) ExpireURLs() { s.memory.expire() }

// Transport is the client's side of a network that has only this service, at Host. There are no sockets.
func (s *Service) Transport() http.RoundTripper {
	return regtest.Transport("127.0.0.1", map[string]http.Handler{Host: s})
}

// Server is a Service on a loopback listener.
type Server struct {
	*Service
	// URL is what ACTIONS_RESULTS_URL is set to.
	URL  string
	http *http.Server
	done chan struct{}
}

// Start serves on a free port of 127.0.0.1 until Close.
func Start(s *Service) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &Server{
		Service: s, URL: "http://" + l.Addr().String() + "/", done: make(chan struct{}),
		http: &http.Server{Handler: s, ReadHeaderTimeout: time.Minute},
	}
	go func() {
		defer close(server.done)
		_ = server.http.Serve(l) // ends with Close
	}()
	return server, nil
}

// Close ends the server and all connections.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.done
	return err
}
