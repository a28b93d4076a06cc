//go:build linux

package stage

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/pullonce/pullonce/internal/cachetest"
)

// kept serves blobs from memory, as a store has served them once. The service that contenders ask has processors of its own;
// a store on the machine that is measured takes half of one for every blob that it sends, from whoever unpacks meanwhile.
// Safe for concurrent use.
type kept struct {
	store http.Handler
	// url is where the store itself has a blob.
	url func(name string) (string, error)

	mu    sync.Mutex
	blobs map[string]*blob // by name, those that were written; nil are those that are only in the store
}

// blob is what the store has answered.
type blob struct {
	header   http.Header
	modified time.Time
	data     []byte
}

// keep reads all blobs that are only in the store.
func (k *kept) keep(ctx context.Context) error {
	for _, name := range k.missing() {
		b, err := k.read(ctx, name)
		if err != nil {
			return fmt.Errorf("keeping blob %s: %w", name, err)
		}
		k.put(name, b)
	}
	return nil
}

func (k *kept) missing() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(k.blobs)), func(name string) bool { return k.blobs[name] != nil })
}

// read reads a blob from the store; nil is one that is not published.
func (k *kept) read(ctx context.Context, name string) (*blob, error) {
	url, err := k.url(name)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, nil
	default:
		return nil, fmt.Errorf("the store says %s", resp.Status)
	}
	modified, err := http.ParseTime(resp.Header.Get("Last-Modified"))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	for _, own := range []string{"Connection", "Keep-Alive", "Date", "Content-Length", "Transfer-Encoding"} {
		resp.Header.Del(own) // the line's own, or those of one answer
	}
	return &blob{header: resp.Header, modified: modified, data: data}, nil
}

func (k *kept) get(name string) *blob {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.blobs[name]
}

func (k *kept) put(name string, b *blob) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.blobs == nil {
		k.blobs = map[string]*blob{}
	}
	k.blobs[name] = b
}

// ServeHTTP implements http.Handler.
func (k *kept) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name := path.Base(req.URL.Path)
	switch req.Method {
	case http.MethodGet, http.MethodHead:
		if b := k.get(name); b != nil && !req.URL.Query().Has("comp") {
			maps.Copy(w.Header(), b.header)
			cachetest.ServeBlob(w, req, b.modified, b.data)
			return
		}
	default:
		k.put(name, nil)
	}
	k.store.ServeHTTP(w, req)
}
