// Package loopback owns a registry of one image on this machine's loopback address, for a daemon that pulls from it: the
// part of the OCI distribution-spec that a pull by digest needs. It reads a layer when it is asked for it, and keeps
// nothing. It does not know who pulls, or what becomes of it.
package loopback

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullonce/pullonce/internal/image"
)

// headerTimeout is how long a client may take to send a request's header.
const headerTimeout = 30 * time.Second

// Options are what whoever waits for the pull wants to know. Its functions may be called from any goroutine, until Close
// has returned. Each may be nil.
type Options struct {
	// Plain serves what the layers unpack to, by their diff ids, to a client that keeps nothing else of them: it then need not
	// unpack them itself, one after the other. The image must have contents: see image.Image.HasContent.
	Plain bool
	// Sort has a client ask again for layers that it asks for before lower ones. Only one that has them open in an order of
	// chance, and asks again at once, is helped by it: containerd.
	Sort bool
	// Layer wraps what a layer is written to, from its turn on until it is closed. One at a time is open.
	Layer func(w io.Writer) io.WriteCloser
	// Fail is told what keeps a layer from being read. It is image.ErrRead, and said once: from then on every request is
	// refused, so that a client has nothing to try again.
	Fail func(error)
}

// Registry serves one image until it is closed. Safe for concurrent use.
type Registry struct {
	img        image.Image
	opts       Options
	address    string
	repository string
	manifest   image.Document
	layers     map[digest.Digest]int // what is asked for by a digest
	turns      *turns
	server     *http.Server
	cancel     context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup

	failing       sync.Once
	asked, failed atomic.Bool
	sent          atomic.Int64
}

// Serve begins to serve the manifest of img's layers at hand, its config and its layers. The image is found by a name
// that is random and told to nobody else, so that other users of the machine can't read it. Reads end with ctx.
func Serve(ctx context.Context, img image.Image, opts Options) (*Registry, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the daemon: %w", err)
	}
	r := &Registry{
		img:        img,
		opts:       opts,
		address:    listener.Addr().String(),
		repository: strings.ToLower(rand.Text()),
		layers:     make(map[digest.Digest]int, len(img.Layers())),
		turns:      newTurns(len(img.Layers()), opts.Sort),
	}
	if err := r.describe(); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	ctx, r.cancel = context.WithCancel(ctx)
	r.server = &http.Server{
		Handler:           r,
		ReadHeaderTimeout: headerTimeout,
		ErrorLog:          log.New(io.Discard, "", 0), // what clients do wrong is theirs to report
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	r.running.Go(func() { _ = r.server.Serve(listener) }) // it ends with Close
	return r, nil
}

// describe finds the manifest to serve, and by which digests the layers are asked for.
func (r *Registry) describe() (err error) {
	r.manifest = r.img.Carrier()
	if r.opts.Plain {
		if r.manifest, err = r.img.Contents(); err != nil {
			return err
		}
	}
	for i, l := range r.img.Layers() {
		name := l.Descriptor.Digest
		if r.opts.Plain {
			name = l.DiffID
		}
		if _, again := r.layers[name]; !again {
			r.layers[name] = i
		}
	}
	return nil
}

// Close ends all connections, and returns when nothing of the image is read any more.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	_ = r.server.Close()
	r.running.Wait()
	r.turns.stop()
}

// Reference is the name of the manifest for a pull, "127.0.0.1:PORT/NAME@DIGEST".
func (r *Registry) Reference() string {
	return r.address + "/" + r.repository + "@" + r.manifest.Digest.String()
}

// Asked says whether anybody who knows the name was here.
func (r *Registry) Asked() bool { return r.asked.Load() }

// Sent is how many bytes of layers were written so far.
func (r *Registry) Sent() int64 { return r.sent.Load() }

// ServeHTTP implements http.Handler.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !r.enter() {
		panic(http.ErrAbortHandler)
	}
	defer r.running.Done()
	switch {
	case req.Method != http.MethodGet && req.Method != http.MethodHead:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case req.URL.Path == "/v2/":
		w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
		document(w, req, "application/json", []byte("{}"))
	default:
		r.serve(w, req)
	}
}

// enter has Close wait for a request, unless it has begun.
func (r *Registry) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.running.Add(1)
	}
	return !r.closed
}

// serve answers a request for something of the image: /v2/NAME/KIND/DIGEST.
func (r *Registry) serve(w http.ResponseWriter, req *http.Request) {
	name, rest, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/v2/"), "/")
	if subtle.ConstantTimeCompare([]byte(name), []byte(r.repository)) == 0 {
		http.NotFound(w, req)
		return
	}
	r.asked.Store(true)
	if r.failed.Load() || req.Context().Err() != nil {
		refuse(w, http.StatusForbidden, "DENIED")
		return
	}
	kind, reference, _ := strings.Cut(rest, "/")
	layer, isLayer := r.layers[digest.Digest(reference)]
	manifest, config := r.manifest, r.img.Config()
	switch {
	case kind == "manifests" && reference == manifest.Digest.String():
		w.Header().Set("Docker-Content-Digest", reference)
		document(w, req, manifest.MediaType, manifest.Data)
	case kind == "manifests":
		refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN")
	case kind == "blobs" && reference == config.Digest.String():
		document(w, req, "application/octet-stream", config.Data)
	case kind == "blobs" && isLayer && r.opts.Plain:
		r.servePlain(w, req, layer)
	case kind == "blobs" && isLayer:
		r.serveLayer(w, req, layer)
	default:
		refuse(w, http.StatusNotFound, "BLOB_UNKNOWN")
	}
}
