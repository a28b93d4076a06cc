package apitest

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// newPipe is a connection in memory that holds what is on its way, as a socket does: unlike with net.Pipe, both ends can
// say goodbye and leave.
func newPipe() (net.Conn, net.Conn) {
	a, b := newStream(), newStream()
	return &pipe{in: a, out: b}, &pipe{in: b, out: a}
}

// stream is what goes in one direction.
type stream struct {
	mu       sync.Mutex
	changed  *sync.Cond
	data     []byte
	ended    bool // nothing more is written
	left     bool // nobody reads any more
	deadline time.Time
}

func newStream() *stream {
	s := &stream{}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.left:
			return 0, net.ErrClosed
		case !s.deadline.IsZero() && !time.Now().Before(s.deadline):
			return 0, os.ErrDeadlineExceeded
		case len(s.data) > 0:
			n := copy(p, s.data)
			s.data = s.data[n:]
			return n, nil
		case s.ended:
			return 0, io.EOF
		}
		s.changed.Wait()
	}
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.left {
		return 0, net.ErrClosed
	}
	s.data = append(s.data, p...)
	s.changed.Broadcast()
	return len(p), nil
}

// change changes the stream and wakes who waits for it.
func (s *stream) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.changed.Broadcast()
}

// pipe is one end of a connection.
type pipe struct {
	in, out *stream
	mu      sync.Mutex
	timer   *time.Timer
}

var _ net.Conn = (*pipe)(nil)

// Read implements net.Conn.
func (p *pipe) Read(b []byte) (int, error) { return p.in.read(b) }

// Write implements net.Conn. It never waits.
func (p *pipe) Write(b []byte) (int, error) { return p.out.write(b) }

// Close implements net.Conn.
func (p *pipe) Close() error {
	_ = p.SetReadDeadline(time.Time{})
	p.in.change(func() { p.in.left = true })
	p.out.change(func() { p.out.ended = true })
	return nil
}

// SetReadDeadline implements net.Conn.
func (p *pipe) SetReadDeadline(at time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	if wait := time.Until(at); !at.IsZero() && wait > 0 {
		p.timer = time.AfterFunc(wait, func() { p.in.change(func() {}) })
	}
	p.in.change(func() { p.in.deadline = at })
	return nil
}

// SetWriteDeadline implements net.Conn.
func (p *pipe) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline implements net.Conn.
func (p *pipe) SetDeadline(at time.Time) error { return p.SetReadDeadline(at) }

// LocalAddr implements net.Conn.
func (p *pipe) LocalAddr() net.Addr { return addr("memory:443") }

// RemoteAddr implements net.Conn.
func (p *pipe) RemoteAddr() net.Addr { return addr("memory:443") }
