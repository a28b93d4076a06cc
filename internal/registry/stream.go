package registry

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// headStart is how many bytes an attempt at a blob must bring to count as one that came to something. A connection that
// breaks later is resumed at once; one that breaks before is followed by the schedule's wait.
const headStart = 128 << 10

// stream is one blob on its way, over as many connections as it takes. It reads no byte twice and is not safe for
// concurrent use.
type stream struct {
	fetch *fetch
	want  ocispec.Descriptor
	// refill makes the attempts that it takes to get more bytes.
	refill func() error

	body  io.ReadCloser // the connection at hand; nil for none
	from  place         // where it leads
	ahead []byte        // bytes that came and were not read yet
	next  int64         // the offset of the byte to come next
	sum   hash.Hash     // of all bytes before it

	wrong mismatches
	owed  error // what was wrong with the whole, for the schedule to judge before the next attempt
}

var _ io.ReadCloser = (*stream)(nil)

// stream opens a blob at its first byte.
func (f *fetch) stream(ctx context.Context, d ocispec.Descriptor) (*stream, error) {
	s := &stream{fetch: f, want: d, sum: sha256.New()}
	s.refill = func() error { return f.budget.run(ctx, f.policy(), s.connect) }
	if d.Size == 0 {
		return s, nil
	}
	return s, s.refill()
}

// received tells whoever shows progress.
func (f *fetch) received(n int) {
	if tell := f.client.options.Received; tell != nil && n > 0 {
		tell(f.ref, n)
	}
}

// connect is one attempt: it asks for the rest of the blob and reads its head start.
func (s *stream) connect(ctx context.Context) error {
	if err := s.owed; err != nil {
		s.owed = nil
		return s.wrong.judge(err)
	}
	req := request{method: http.MethodGet, path: "blobs/" + s.want.Digest.String(), offset: s.next, patience: s.fetch.budget}
	return s.wrong.judge(s.fetch.route.try(ctx, req, func(at place, resp *http.Response) error {
		if err := s.seek(resp); err != nil {
			_ = resp.Body.Close() // the fault is the first error
			return err
		}
		s.body, s.from = resp.Body, at
		for int64(len(s.ahead)) < headStart && s.next < s.want.Size {
			if err := s.more(); err != nil {
				return err
			}
		}
		return nil
	}))
}

// seek brings the answer to the offset that was asked for: some servers ignore ranges, and some mistake them.
func (s *stream) seek(resp *http.Response) error {
	offset := s.next
	if resp.StatusCode == http.StatusPartialContent {
		if start, ok := rangeStart(resp.Header.Get("Content-Range")); !ok || start != offset {
			return transiently("sends %q where the range from %d was asked for", clean(resp.Header.Get("Content-Range")), offset)
		}
		return nil
	}
	if isPage(resp.Header) {
		return transiently("a web page came where a layer belongs")
	}
	if resp.ContentLength == 0 { // what has no bytes can't be asked for its rest
		return mismatched(digest.FromBytes(nil), s.want.Digest)
	}
	_, err := io.CopyN(io.Discard, resp.Body, offset)
	return err
}

// rangeStart reads the first number of "bytes 7-9/10" (RFC 9110, section 14.4).
func rangeStart(s string) (int64, bool) {
	s, ok := strings.CutPrefix(s, "bytes ")
	first, _, dashed := strings.Cut(s, "-")
	n, err := strconv.ParseInt(first, 10, 64)
	return n, ok && dashed && err == nil
}

// more reads once from the connection at hand into ahead. Where nothing came the connection is let go.
func (s *stream) more() error {
	if s.ahead == nil {
		s.ahead = make([]byte, 0, headStart)
	}
	room := s.ahead[len(s.ahead):cap(s.ahead)]
	n, err := s.read(room)
	s.ahead = s.ahead[:len(s.ahead)+n]
	return err
}

// read reads once from the connection at hand. An error says that there were no more bytes to be had from it.
func (s *stream) read(p []byte) (int, error) {
	n, err := s.body.Read(p[:min(int64(len(p)), s.want.Size-s.next)])
	s.sum.Write(p[:n])
	s.next += int64(n)
	s.fetch.received(n)
	if s.next == s.want.Size || err == nil {
		return n, nil
	}
	s.letGo()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, fmt.Errorf("after %d of %d bytes: %w", s.next, s.want.Size, err)
}

func (s *stream) letGo() {
	if s.body != nil {
		_ = s.body.Close() // nothing more is wanted of it
		s.body = nil
	}
}

// Read implements io.Reader. It resumes as long as the schedule allows, and ends in an error when the whole turns out to be
// another blob.
func (s *stream) Read(p []byte) (int, error) {
	for {
		switch {
		case len(s.ahead) > 0:
			n := copy(p, s.ahead)
			s.ahead = s.ahead[n:]
			return n, nil
		case s.next == s.want.Size && s.owed == nil:
			return 0, s.end()
		case s.body != nil:
			if n := s.flow(p); n > 0 {
				return n, nil
			}
		default:
			s.ahead = nil
			if err := s.refill(); err != nil {
				return 0, s.fetch.wrap(err)
			}
		}
	}
}

// flow reads once from a connection that has proved itself. Where it breaks, the attempt has failed after all.
func (s *stream) flow(p []byte) int {
	start := time.Now()
	n, err := s.read(p)
	if err == nil {
		return n
	}
	s.fetch.budget.failed()
	s.fetch.budget.spend(time.Since(start))
	s.fetch.route.giveUp(s.from, err)
	s.fetch.client.notify(Event{Kind: Resume, Image: s.fetch.ref.Familiar(), Host: s.from.host.domain, Text: clean("breaks off " + err.Error())})
	return n
}

// end is io.EOF where the blob is the right one.
func (s *stream) end() error {
	s.letGo()
	if got := digest.NewDigest(digest.SHA256, s.sum); got != s.want.Digest {
		return mismatched(got, s.want.Digest).at(s.from.host.domain)
	}
	return io.EOF
}

// restart begins the blob again after a mismatch. What a mirror did is between it and us; the origin's own mismatch is a failed
// attempt like any other.
func (s *stream) restart(err error) {
	if s.from.host == s.fetch.route.origin.host {
		s.owed = err
	} else {
		s.fetch.budget.failed()
		s.fetch.route.giveUp(s.from, err)
	}
	s.ahead, s.next = nil, 0
	s.sum.Reset()
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.letGo()
	return nil
}
