package regtest

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// errSpoiled ends the copying of a body that a fault has cut.
var errSpoiled = errors.New("cut by a fault")

// cutting passes n bytes of the body on and then calls end.
func cutting(n int64, end func(http.ResponseWriter, *http.Request)) Fault {
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		next.ServeHTTP(&cutWriter{w, n, func() { end(w, req) }}, req)
	}
}

type cutWriter struct {
	http.ResponseWriter
	left int64
	end  func()
}

func (c *cutWriter) Write(p []byte) (int, error) {
	if c.left < 0 {
		return 0, errSpoiled
	}
	if int64(len(p)) <= c.left {
		n, err := c.ResponseWriter.Write(p)
		c.left -= int64(n)
		return n, err
	}
	n, err := c.ResponseWriter.Write(p[:c.left])
	c.left = -1
	if err != nil {
		return n, err
	}
	flush(c.ResponseWriter)
	c.end()
	return n, errSpoiled
}

type dripWriter struct {
	http.ResponseWriter
	req   *http.Request
	chunk int
	each  time.Duration
}

func (d *dripWriter) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := d.ResponseWriter.Write(p[done:min(len(p), done+d.chunk)])
		done += n
		if err != nil {
			return done, err
		}
		flush(d.ResponseWriter)
		if !pause(d.req, d.each) {
			return done, errSpoiled
		}
	}
	return done, nil
}

type flipWriter struct {
	http.ResponseWriter
	offset  int64
	at      int64 // the offset of the next byte written
	started bool
}

func (f *flipWriter) Write(p []byte) (int, error) {
	if !f.started {
		f.at, f.started = rangeStart(f.Header()), true
	}
	flip := f.offset - f.at
	f.at += int64(len(p))
	if flip < 0 || flip >= int64(len(p)) {
		return f.ResponseWriter.Write(p)
	}
	spoiled := bytes.Clone(p) // a writer must not change what it was given
	spoiled[flip] ^= 1
	return f.ResponseWriter.Write(spoiled)
}

// rangeStart is the offset of an answer's first byte.
func rangeStart(h http.Header) int64 {
	var start int64
	if _, err := fmt.Sscanf(h.Get("Content-Range"), "bytes %d-", &start); err != nil {
		return 0 // no range: the whole
	}
	return start
}

// resizeWriter changes the length of a body and of its declaration.
type resizeWriter struct {
	http.ResponseWriter
	by      int64
	left    int64 // bytes of the body still to pass on
	started bool
}

func (s *resizeWriter) WriteHeader(status int) {
	s.started = true
	length, err := strconv.ParseInt(s.Header().Get("Content-Length"), 10, 64)
	if err == nil {
		s.left = min(length, max(0, length+s.by))
		s.Header().Set("Content-Length", strconv.FormatInt(max(0, length+s.by), 10))
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *resizeWriter) Write(p []byte) (int, error) {
	if !s.started {
		s.WriteHeader(http.StatusOK)
	}
	n, err := s.ResponseWriter.Write(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	if err == nil && n < len(p) {
		err = errSpoiled
	}
	return n, err
}

// finish adds what is to be added.
func (s *resizeWriter) finish(req *http.Request) {
	if s.by > 0 && s.left == 0 && req.Method != http.MethodHead {
		_, _ = s.ResponseWriter.Write(make([]byte, s.by)) // the client may be gone; that is its right
	}
}

// flush sends what was written; a writer that can't has nothing kept back.
func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// hangUp ends the connection: in the process with err, over TCP with a reset, over HTTP/2 by resetting the stream.
func hangUp(w http.ResponseWriter, err error) {
	for inner := w; inner != nil; {
		switch v := inner.(type) {
		case *exchange:
			v.fail(&net.OpError{Op: "read", Net: "tcp", Err: err})
			return
		case interface{ Unwrap() http.ResponseWriter }:
			inner = v.Unwrap()
		default:
			inner = nil
		}
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // net/http's own way to end a stream
	}
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // makes Close send a reset; where it can't, a close will do
	}
	_ = conn.Close()
}
