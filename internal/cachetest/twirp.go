package cachetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const twirpPath = "/twirp/github.actions.results.api.v1.CacheService/"

// record is an entry, or a reservation that may become one.
type record struct {
	key, version, blob string
	size               int64
	visible            time.Time // zero while it is a reservation
}

// Entry is an entry of the cache.
type Entry struct {
	Key, Version string
	Size         int64
}

// Entries are those that were published, in that order.
func (s *Service) Entries() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Entry
	for _, r := range s.entries {
		if !r.visible.IsZero() {
			all = append(all, Entry{r.key, r.version, r.size})
		}
	}
	return all
}

// Reserve takes a key and leaves it at that, as a run does that is killed.
func (s *Service) Reserve(key, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserve(key, version)
}

// Put publishes an entry that holds data. It is for blobs in memory.
func (s *Service) Put(key, version string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.reserve(key, version)
	s.memory.put(r.blob, data)
	r.size, r.visible = int64(len(data)), time.Now()
}

// Spoil changes the bytes of an entry. It is for blobs in memory.
func (s *Service) Spoil(key string, change func([]byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.entries {
		if r.key == key {
			s.memory.put(r.blob, change(s.memory.get(r.blob)))
		}
	}
}

// Evict removes the blob of an entry, or the entry with it. It is for blobs in memory.
func (s *Service) Evict(key string, entry bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.entries {
		if r.key == key {
			s.memory.put(r.blob, nil)
		}
	}
	if entry {
		s.entries = slices.DeleteFunc(s.entries, func(r *record) bool { return r.key == key })
	}
}

func (s *Service) reserve(key, version string) *record {
	s.serial++
	r := &record{key: key, version: version, blob: "entry-" + strconv.Itoa(s.serial)}
	s.entries = append(s.entries, r)
	return r
}

// call is the request of any method.
type call struct {
	Key         string      `json:"key"`
	Version     string      `json:"version"`
	RestoreKeys []string    `json:"restore_keys"`
	Restore     []string    `json:"restoreKeys"`
	SizeBytes   json.Number `json:"size_bytes"`
	Size        json.Number `json:"sizeBytes"`
}

func (s *Service) serveCall(w http.ResponseWriter, req *http.Request, op Op) {
	if !strings.HasPrefix(req.Header.Get("Authorization"), "Bearer ") {
		twirpError(w, http.StatusUnauthorized, "unauthenticated", "no token")
		return
	}
	var c call
	if err := json.NewDecoder(req.Body).Decode(&c); err != nil || req.Method != http.MethodPost {
		twirpError(w, http.StatusBadRequest, "malformed", "no request of this protocol")
		return
	}
	if c.Key == "" || len(c.Key) > 512 || strings.Contains(c.Key, ",") || len(c.Version) != 64 {
		twirpError(w, http.StatusBadRequest, "invalid_argument", "key or version")
		return
	}
	methods := map[Op]func(http.ResponseWriter, *http.Request, call){Create: s.create, Finalize: s.finalize, Lookup: s.lookup}
	method, ok := methods[op]
	if !ok {
		twirpError(w, http.StatusNotFound, "bad_route", "no such method")
		return
	}
	s.note(op, c.Key)(w, req, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { method(w, req, c) }))
}

func (s *Service) create(w http.ResponseWriter, req *http.Request, c call) {
	if s.options.ReadOnly {
		s.answer(w, map[string]any{"ok": false, "message": "cache write denied: the run may only read"})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.entries, func(r *record) bool { return r.key == c.Key && r.version == c.Version }) {
		twirpError(w, http.StatusConflict, "already_exists", "cache entry with the same key, version, and scope already exists")
		return
	}
	r := s.reserve(c.Key, c.Version)
	s.sign(w, req, r, true, map[string]any{"ok": true, "message": ""})
}

func (s *Service) finalize(w http.ResponseWriter, req *http.Request, c call) {
	size, err := (c.SizeBytes + c.Size).Int64()
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.entries, func(r *record) bool {
		return r.key == c.Key && r.version == c.Version && r.visible.IsZero()
	})
	if i < 0 || err != nil {
		twirpError(w, http.StatusNotFound, "not_found", "no such reservation")
		return
	}
	r := s.entries[i]
	have, err := s.options.Blobs.Size(req.Context(), r.blob)
	if err != nil || have != size {
		twirpError(w, http.StatusBadRequest, "invalid_argument", fmt.Sprintf("%d bytes were sent, not %d (%v)", have, size, err))
		return
	}
	r.size, r.visible = size, time.Now().Add(s.options.Delay)
	s.answer(w, map[string]any{"ok": true, "entry_id": "1", "message": ""})
}

func (s *Service) lookup(w http.ResponseWriter, req *http.Request, c call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range append(append([]string{c.Key}, c.RestoreKeys...), c.Restore...) {
		if r := s.find(key, c.Version); r != nil {
			s.sign(w, req, r, false, map[string]any{"ok": true, "matched_key": r.key})
			return
		}
	}
	s.answer(w, map[string]any{"ok": false, "signed_download_url": "", "matched_key": ""})
}

// find is the entry of key, or else the newest whose key begins with it.
func (s *Service) find(key, version string) *record {
	var found *record
	for _, r := range s.entries {
		if r.version != version || r.visible.IsZero() || r.visible.After(time.Now()) || !strings.HasPrefix(r.key, key) {
			continue
		}
		if r.key == key {
			return r
		}
		if found == nil || !r.visible.Before(found.visible) {
			found = r
		}
	}
	return found
}

// sign adds a signed URL to an answer.
func (s *Service) sign(w http.ResponseWriter, req *http.Request, r *record, write bool, fields map[string]any) {
	scheme := "http"
	if req.TLS != nil {
		scheme = "https"
	}
	signed, err := s.options.Blobs.Sign(scheme+"://"+req.Host, r.blob, write, time.Now().Add(s.options.Lifetime))
	if err != nil {
		twirpError(w, http.StatusInternalServerError, "internal", err.Error())
		return
	}
	name := "signed_download_url"
	if write {
		name = "signed_upload_url"
	}
	fields[name] = signed
	s.answer(w, fields)
}

func (s *Service) answer(w http.ResponseWriter, fields map[string]any) {
	if s.options.CamelCase {
		camel := map[string]any{}
		for name, value := range fields {
			camel[camelCase(name)] = value
		}
		fields = camel
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(fields) // a client that has gone is not told
}

func camelCase(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

func twirpError(w http.ResponseWriter, status int, code, msg string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"code": code, "msg": msg}) // as above
}

// Hide makes an entry invisible for some time from now on.
func (s *Service) Hide(key string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.entries {
		if r.key == key {
			r.visible = time.Now().Add(d)
		}
	}
}
