package regtest

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// Kind is what a request is for.
type Kind string

// The kinds of requests. Index and manifest are told apart by what the registry holds under the name; a manifest that
// it does not hold is KindManifest, and a blob that it does not hold is KindBlob.
const (
	KindPing     Kind = "ping"
	KindToken    Kind = "token"
	KindIndex    Kind = "index"
	KindManifest Kind = "manifest"
	KindConfig   Kind = "config"
	KindBlob     Kind = "blob"
	KindOther    Kind = "other"
)

// Request is one request as the registry saw it.
type Request struct {
	Time       time.Time
	Client     string // the client's IP
	Method     string
	Host, Path string
	Query      string
	Kind       Kind
	Repository string
	Reference  string      // the tag or digest
	Header     http.Header // the request's
	// Status is the answer's, or 0 where none was sent.
	Status int
	// Bytes of body that were sent.
	Bytes int64
}

// Range is the request's Range header.
func (r Request) Range() string { return r.Header.Get("Range") }

// Log is requests, in the order in which they came.
type Log []Request

// Of are the requests of the given kinds.
func (l Log) Of(kinds ...Kind) Log {
	return l.Filter(func(r Request) bool {
		for _, k := range kinds {
			if r.Kind == k {
				return true
			}
		}
		return false
	})
}

// Filter are the requests that keep holds true for.
func (l Log) Filter(keep func(Request) bool) Log {
	var kept Log
	for _, r := range l {
		if keep(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// Bytes is the sum of the bytes of body sent.
func (l Log) Bytes() int64 {
	var n int64
	for _, r := range l {
		n += r.Bytes
	}
	return n
}

// Statuses are the statuses of the answers, in order.
func (l Log) Statuses() []int {
	statuses := make([]int, len(l))
	for i, r := range l {
		statuses[i] = r.Status
	}
	return statuses
}

// Times are when the requests came, counted from the first.
func (l Log) Times() []time.Duration {
	times := make([]time.Duration, len(l))
	for i, r := range l {
		times[i] = r.Time.Sub(l[0].Time)
	}
	return times
}

// Log is every request so far. A request that is being answered is among them with what was sent of its answer.
func (r *Registry) Log() Log { return r.log.requests() }

// ResetLog forgets the requests so far.
func (r *Registry) ResetLog() { r.log.reset() }

// entry is a request under way.
type entry struct {
	Request
	item  item
	found bool
}

func newEntry(req *http.Request) *entry {
	return &entry{Request: Request{
		Time: time.Now(), Client: clientIP(req), Method: req.Method, Host: req.Host,
		Path: req.URL.Path, Query: req.URL.RawQuery, Header: req.Header.Clone(), Kind: KindOther,
	}}
}

// classify reads the path, as the distribution-spec lays it out under "Endpoints".
func (e *entry) classify(lookup func(repository, reference string) (item, bool)) {
	if e.Path == tokenPath {
		e.Kind = KindToken
		return
	}
	rest, ok := strings.CutPrefix(e.Path, "/v2/")
	switch {
	case !ok:
		return
	case rest == "":
		e.Kind = KindPing
		return
	}
	section := "/manifests/"
	e.Kind = KindManifest
	if strings.Contains(rest, "/blobs/") {
		section, e.Kind = "/blobs/", KindBlob
	}
	e.Repository, e.Reference, ok = strings.Cut(rest, section)
	if !ok {
		e.Kind, e.Repository = KindOther, ""
		return
	}
	it, found := lookup(e.Repository, e.Reference)
	isBlob := it.kind == KindBlob || it.kind == KindConfig
	if e.found = found && isBlob == (e.Kind == KindBlob); e.found {
		e.item, e.Kind = it, it.kind
	}
}

// journal keeps the entries.
type journal struct {
	mu      sync.Mutex
	entries []*entry
}

// follow notes e, and through what it returns the status and the bytes of the answer, before they leave.
func (j *journal) follow(w http.ResponseWriter, e *entry) http.ResponseWriter {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, e)
	return &followed{ResponseWriter: w, journal: j, entry: e}
}

func (j *journal) requests() Log {
	j.mu.Lock()
	defer j.mu.Unlock()
	log := make(Log, len(j.entries))
	for i, e := range j.entries {
		log[i] = e.Request
	}
	return log
}

func (j *journal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = nil
}

type followed struct {
	http.ResponseWriter
	journal *journal
	entry   *entry
}

// Unwrap lets http.ResponseController and the faults reach the connection.
func (f *followed) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func (f *followed) WriteHeader(status int) {
	f.journal.mu.Lock()
	f.entry.Status = status
	f.journal.mu.Unlock()
	f.ResponseWriter.WriteHeader(status)
}

func (f *followed) Write(p []byte) (int, error) {
	f.journal.mu.Lock()
	if f.entry.Status == 0 {
		f.entry.Status = http.StatusOK
	}
	if f.entry.Method != http.MethodHead {
		f.entry.Bytes += int64(len(p))
	}
	f.journal.mu.Unlock()
	return f.ResponseWriter.Write(p)
}
