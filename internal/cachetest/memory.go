package cachetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const memoryPath = "/blobs/"

// memory is a blob store in memory, as far as the REST API of Azure Blob Storage is needed: Put Blob, Put Block, Put
// Block List, Get Blob by range, and Get Blob Properties.
type memory struct {
	mu     sync.Mutex
	blobs  map[string]stored
	blocks map[string]map[string][]byte // by blob and block id; those of a list stay, so that it can be sent again
	signed map[string]permit
}

type stored struct {
	data     []byte
	modified time.Time
}

// permit is what a signature allows.
type permit struct {
	name  string
	write bool
	until time.Time
}

func newMemory() *memory {
	return &memory{blobs: map[string]stored{}, blocks: map[string]map[string][]byte{}, signed: map[string]permit{}}
}

// Sign implements Blobs. Signatures hold characters that a URL escapes, as Azure's do.
func (m *memory) Sign(base, name string, write bool, until time.Time) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sig := "/" + rand.Text() + "+="
	m.signed[sig] = permit{name, write, until}
	return base + memoryPath + "container/" + name + "?se=" + url.QueryEscape(until.UTC().Format(time.RFC3339)) + "&sig=" + url.QueryEscape(sig), nil
}

// Size implements Blobs.
func (m *memory) Size(_ context.Context, name string) (int64, error) {
	return int64(len(m.get(name))), nil
}

func (m *memory) get(name string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.blobs[name].data
}

// put sets a blob; nil removes it.
func (m *memory) put(name string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if data == nil {
		delete(m.blobs, name)
		return
	}
	m.blobs[name] = stored{data, time.Now()}
}

func (m *memory) expire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.signed = map[string]permit{}
}

// opOf is the operation that a request to the blob store asks for.
func opOf(req *http.Request) Op {
	switch comp := req.URL.Query().Get("comp"); {
	case req.Method == http.MethodHead:
		return HeadBlob
	case req.Method == http.MethodGet:
		return GetBlob
	case comp == "block":
		return PutBlock
	case comp == "blocklist":
		return PutBlockList
	default:
		return PutBlob
	}
}

// ServeHTTP implements http.Handler.
func (m *memory) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	op := opOf(req)
	name := strings.TrimPrefix(req.URL.Path, memoryPath+"container/")
	if !m.allowed(req.URL.Query().Get("sig"), name, req.Method == http.MethodPut) {
		storageError(w, http.StatusForbidden, "AuthenticationFailed")
		return
	}
	switch op {
	case GetBlob, HeadBlob:
		m.serve(w, req, name)
	default:
		body, err := io.ReadAll(req.Body)
		if err != nil {
			storageError(w, http.StatusBadRequest, "IncompleteBody")
			return
		}
		m.write(w, op, name, req.URL.Query().Get("blockid"), body)
	}
}

func (m *memory) allowed(sig, name string, write bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.signed[sig]
	return ok && p.name == name && p.write == write && time.Now().Before(p.until)
}

func (m *memory) serve(w http.ResponseWriter, req *http.Request, name string) {
	m.mu.Lock()
	b, ok := m.blobs[name]
	m.mu.Unlock()
	if !ok {
		storageError(w, http.StatusNotFound, "BlobNotFound")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("x-ms-blob-type", "BlockBlob")
	ServeBlob(w, req, b.modified, b.data)
}

// ServeBlob answers a GET or a HEAD of a blob as Azure's store does, with the range that is asked for by Azure's name for it or
// by HTTP's. What else is to be in the header must be there.
func ServeBlob(w http.ResponseWriter, req *http.Request, modified time.Time, data []byte) {
	for header, values := range req.Header { // as the client spells them: without a network nobody puts them right
		if strings.EqualFold(header, "x-ms-range") {
			req.Header.Set("Range", values[0])
		}
	}
	if len(data) == 0 && req.Header.Get("Range") != "" {
		storageError(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
		return
	}
	http.ServeContent(w, req, "", modified, bytes.NewReader(data))
}

func (m *memory) write(w http.ResponseWriter, op Op, name, block string, body []byte) {
	switch op {
	case PutBlob:
		m.put(name, body)
	case PutBlock:
		m.mu.Lock()
		if m.blocks[name] == nil {
			m.blocks[name] = map[string][]byte{}
		}
		m.blocks[name][block] = body
		m.mu.Unlock()
	case PutBlockList:
		data, err := m.join(name, body)
		if err != nil {
			storageError(w, http.StatusBadRequest, "InvalidBlockList")
			return
		}
		m.put(name, data)
	}
	w.WriteHeader(http.StatusCreated)
}

// join puts the blocks of a list together.
func (m *memory) join(name string, list []byte) ([]byte, error) {
	var wanted struct {
		Latest []string `xml:"Latest"`
	}
	if err := xml.Unmarshal(list, &wanted); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var data []byte
	for _, id := range wanted.Latest {
		block, ok := m.blocks[name][id]
		if !ok {
			return nil, fmt.Errorf("no block %s", id)
		}
		data = append(data, block...)
	}
	return data, nil
}

func storageError(w http.ResponseWriter, status int, code string) {
	w.Header().Set("x-ms-error-code", code)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>%s</Code><Message>%s</Message></Error>", code, code)
}
