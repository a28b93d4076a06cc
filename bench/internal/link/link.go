package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Options say how the line is.
type Options struct {
	// Bandwidth is what all transfers share in each direction, in bytes a second; 0 is without bound.
	Bandwidth int64
	// Latency is what each request waits before it is answered.
	Latency time.Duration
}

// Counts are what went over the line.
type Counts struct {
	Requests int64 `json:"requests"`
	Down     int64 `json:"down"` // bytes of answers
	Up       int64 `json:"up"`   // bytes of requests
}

// Sub is what went over the line since.
func (c Counts) Sub(before Counts) Counts {
	return Counts{c.Requests - before.Requests, c.Down - before.Down, c.Up - before.Up}
}

// Link is a server behind a line. Safe for concurrent use.
type Link struct {
	options  Options
	up, down bandwidth
	server   *http.Server
	listener net.Listener
	done     chan struct{}

	mu     sync.Mutex
	counts Counts
}

// Start puts a handler behind a line, on a free port of 127.0.0.1, until Close.
func Start(handler http.Handler, o Options) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the store: %w", err)
	}
	l := &Link{
		options: o, up: bandwidth{rate: float64(o.Bandwidth)}, down: bandwidth{rate: float64(o.Bandwidth)},
		listener: listener, done: make(chan struct{}),
	}
	l.server = &http.Server{Handler: l.behind(handler), ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(l.done)
		_ = l.server.Serve(listener) // ends with Close
	}()
	return l, nil
}

// Port is where it listens.
func (l *Link) Port() int { return l.listener.Addr().(*net.TCPAddr).Port }

// Counts are what went over the line so far.
func (l *Link) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// Close ends the server and all connections.
func (l *Link) Close() error {
	err := l.server.Close()
	<-l.done
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (l *Link) count(c Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Requests += c.Requests
	l.counts.Down += c.Down
	l.counts.Up += c.Up
}

// behind is the handler at the far end of the line.
func (l *Link) behind(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		l.count(Counts{Requests: 1})
		if sleep(req.Context(), l.options.Latency) != nil {
			return
		}
		req.Body = &upload{req.Body, req.Context(), l}
		handler.ServeHTTP(&download{w, req.Context(), l}, req)
	})
}

// upload is the body of a request on its way.
type upload struct {
	io.ReadCloser
	ctx context.Context // of the request that it is the body of
	l   *Link
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	u.l.count(Counts{Up: int64(n)})
	if n > 0 {
		if waited := u.l.up.take(u.ctx, n); waited != nil {
			return n, waited
		}
	}
	return n, err
}

// download is an answer on its way.
type download struct {
	http.ResponseWriter
	ctx context.Context // of the request that it answers
	l   *Link
}

// Unwrap lets http.ResponseController flush.
func (d *download) Unwrap() http.ResponseWriter { return d.ResponseWriter }

// Write implements io.Writer.
func (d *download) Write(p []byte) (int, error) {
	if err := d.l.down.take(d.ctx, len(p)); err != nil {
		return 0, err
	}
	n, err := d.ResponseWriter.Write(p)
	d.l.count(Counts{Down: int64(n)})
	return n, err
}
