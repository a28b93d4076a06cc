package fanout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// chunkSize is how much is read at a time, in bytes.
const chunkSize = 128 << 10

// read is one blob on its way to several readers. Whoever has no bytes left fetches the next for all.
type read struct {
	group    *group
	blob     ocispec.Descriptor
	readers  []*reader
	rc       io.ReadCloser // nil until the first byte is wanted
	fetching bool
	chunks   [][]byte // what is kept, the first at offset start
	free     [][]byte
	start    int64
	end      int64 // how much was fetched
	err      error // what came behind it; io.EOF as a rule
}

// reader is one share's view of the blob. Not safe for concurrent use, as readers are.
type reader struct {
	branch   *branch
	read     *read
	ctx      context.Context // of whoever opened it
	at       int64
	moved    time.Time
	detached bool          // the others went on without it
	own      io.ReadCloser // what it reads for itself since then
	err      error         // what comes behind the last byte, if that is known
	closed   bool
}

var (
	errClosed = errors.New("read after Close")
	errUnread = errors.New("whoever read for all ended before it was done")
)

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	switch {
	case len(p) == 0:
		return 0, nil
	case r.closed:
		return 0, errClosed
	}
	if n, detached, err := r.shared(p); !detached {
		return n, err
	}
	return r.alone(p)
}

// shared reads with the others, unless they go on without r.
func (r *reader) shared(p []byte) (n int, detached bool, err error) {
	g := r.read.group
	g.mu.Lock()
	defer g.mu.Unlock() // also where fetch ends this goroutine
	for !r.detached {
		if n, err := r.read.copy(r, p); n > 0 || err != nil {
			return n, false, err
		}
		if err := r.read.more(r.ctx); err != nil {
			return 0, false, err
		}
	}
	return 0, true, nil
}

// copy gives r what there is, or the end. Both 0 and nil mean that there is nothing yet.
func (rd *read) copy(r *reader, p []byte) (int, error) {
	if r.at == rd.end {
		return 0, rd.err
	}
	skip := r.at - rd.start
	n := 0
	for _, c := range rd.chunks {
		if skip >= int64(len(c)) {
			skip -= int64(len(c))
			continue
		}
		n += copy(p[n:], c[skip:])
		skip = 0
		if n == len(p) {
			break
		}
	}
	r.at += int64(n)
	r.moved = time.Now()
	rd.trim()
	return n, nil
}

// trim lets go of what every reader has.
func (rd *read) trim() {
	slowest := rd.slowest()
	if slowest == nil {
		return
	}
	for len(rd.chunks) > 0 && rd.start+int64(len(rd.chunks[0])) <= slowest.at {
		rd.start += int64(len(rd.chunks[0]))
		rd.free = append(rd.free, rd.chunks[0][:cap(rd.chunks[0])])
		rd.chunks = rd.chunks[1:]
		rd.group.signal()
	}
}

func (rd *read) slowest() *reader {
	if len(rd.readers) == 0 {
		return nil
	}
	return slices.MinFunc(rd.readers, func(a, b *reader) int { return cmp.Compare(a.at, b.at) })
}

// more fetches the next chunk, or waits: for whoever fetches it, or for the slowest reader.
func (rd *read) more(ctx context.Context) error {
	until := time.Now().Add(Patience)
	if !rd.fetching {
		slowest := rd.slowest()
		if rd.end-slowest.at < Window {
			rd.fetch()
			return nil
		}
		until = slowest.moved.Add(Patience)
	}
	if !rd.group.wait(ctx, until) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rd.detachIdle()
	}
	return nil
}

// fetch reads one chunk, without the lock. However that ends, those who wait for the chunk hear of it.
func (rd *read) fetch() {
	g := rd.group
	rd.fetching = true
	buf := rd.buffer()
	n, err := 0, errUnread
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		rd.fetching = false
		if n > 0 {
			rd.chunks = append(rd.chunks, buf[:n])
			rd.end += int64(n)
		}
		if err != nil {
			rd.err = err
		}
		rd.finish()
		g.signal()
	}()
	n, err = rd.fill(buf)
}

func (rd *read) buffer() []byte {
	if n := len(rd.free); n > 0 {
		buf := rd.free[n-1]
		rd.free = rd.free[:n-1]
		return buf
	}
	return make([]byte, chunkSize)
}

// fill opens the blob at first, and reads on. A panic of the source is an error for all, not for whoever came to fetch.
func (rd *read) fill(buf []byte) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			n, err = 0, fmt.Errorf("reading %s panicked: %v", rd.blob.Digest, v)
		}
	}()
	if rd.rc == nil {
		rc, err := rd.group.source.Blob(rd.group.ctx, rd.blob)
		if err != nil {
			return 0, err
		}
		rd.rc = rc
	}
	return io.ReadAtLeast(rd.rc, buf, 1)
}

// detachIdle sends readers that have not moved for long on a way of their own. One that waits for bytes is not idle.
func (rd *read) detachIdle() {
	for _, r := range slices.Clone(rd.readers) {
		waits := r.at == rd.end && rd.err == nil
		if waits || time.Since(r.moved) < Patience {
			continue
		}
		if r.at == rd.end {
			r.err = rd.err
		}
		r.detached, r.branch.late = true, true
		rd.drop(r)
	}
}

// drop takes a reader from the read, which ends with its last.
func (rd *read) drop(r *reader) {
	rd.readers = slices.DeleteFunc(rd.readers, func(other *reader) bool { return other == r })
	rd.trim()
	rd.finish()
	rd.group.signal()
}

// finish ends the read if nobody reads it any more, and begins the next.
func (rd *read) finish() {
	if len(rd.readers) > 0 || rd.fetching || rd.group.current != rd {
		return
	}
	if rd.rc != nil {
		_ = rd.rc.Close() // whoever read it knows how that went
	}
	rd.group.current = nil
	rd.group.begin(false)
}

// alone reads the blob for r alone, from where it is.
func (r *reader) alone(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.own == nil {
		own, err := r.read.group.source.Blob(r.ctx, r.read.blob)
		if err != nil {
			return 0, err
		}
		r.own = own
		if _, err := io.CopyN(io.Discard, own, r.at); err != nil {
			return 0, err
		}
	}
	return r.own.Read(p)
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.closed = true
	g := r.read.group
	g.mu.Lock()
	if !r.detached {
		r.detached = true
		r.read.drop(r)
	}
	g.mu.Unlock()
	if r.own != nil {
		return r.own.Close()
	}
	return nil
}
