package loopback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/pullonce/pullonce/internal/image"
)

// copyBuffer is how much of a layer is in memory at a time, in bytes.
const copyBuffer = 128 << 10

// document answers with all of data.
func document(w http.ResponseWriter, req *http.Request, mediaType string, data []byte) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if req.Method == http.MethodGet {
		_, _ = w.Write(data) // a client that went away has seen no end
	}
}

// refuse answers with an error of the distribution-spec.
func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"errors":[{"code":%q,"message":"pullonce does not serve it"}]}`, code)
}

// serveLayer sends the header of layer i at once, and its bytes when it is its turn. A layer that breaks off is an
// aborted connection, never a clean end.
func (r *Registry) serveLayer(w http.ResponseWriter, req *http.Request, i int) {
	size := r.img.Layers()[i].Descriptor.Size
	header, status := w.Header(), http.StatusOK
	from, ranged := rangeFrom(req.Header.Get("Range"), size)
	if ranged {
		status = http.StatusPartialContent
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, size-1, size))
	}
	header.Set("Accept-Ranges", "bytes")
	header.Set("Content-Length", strconv.FormatInt(size-from, 10))
	r.sendLayer(w, req, i, status, from)
}

// servePlain sends what layer i unpacks to. How much that is turns out at its end.
func (r *Registry) servePlain(w http.ResponseWriter, req *http.Request, i int) {
	r.sendLayer(w, req, i, http.StatusOK, 0)
}

// sendLayer sends the answer's header, and layer i from that byte on.
func (r *Registry) sendLayer(w http.ResponseWriter, req *http.Request, i, status int, from int64) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(status)
	if req.Method == http.MethodHead {
		return
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
		panic(http.ErrAbortHandler)
	}
	if err := r.inTurn(req.Context(), w, i, from); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// rangeFrom is the first byte of a range to the end of a blob of that size, which is what resumes a download. Of other
// ranges the whole is sent, as HTTP allows.
func rangeFrom(header string, size int64) (from int64, ok bool) {
	text, isBytes := strings.CutPrefix(header, "bytes=")
	text, isOpen := strings.CutSuffix(text, "-")
	from, err := strconv.ParseInt(text, 10, 64)
	if !isBytes || !isOpen || err != nil || from < 0 || from >= size {
		return 0, false
	}
	return from, true
}

// inTurn writes layer i from that byte on, once no other is being read, and reports what keeps it from being read.
func (r *Registry) inTurn(ctx context.Context, w io.Writer, i int, from int64) error {
	done, err := r.turns.take(ctx, i)
	if err != nil {
		return err
	}
	defer done()
	body := r.body(w)
	defer body.Close()
	r.img.Announce(append([]int{i}, r.turns.coming(i)...)...)
	err = r.copyLayer(ctx, body, i, from)
	if errors.Is(err, image.ErrRead) && ctx.Err() == nil {
		r.fail(err)
	}
	return err
}

// fail reports why the image can't be read, before any client can learn it.
func (r *Registry) fail(err error) {
	r.failing.Do(func() {
		if r.opts.Fail != nil {
			r.opts.Fail(err)
		}
		r.failed.Store(true)
	})
}

// copyLayer reads all of layer i, because it is proven only as a whole, and writes it from that byte on.
func (r *Registry) copyLayer(ctx context.Context, w io.Writer, i int, from int64) error {
	open := r.img.Layer
	if r.opts.Plain {
		open = r.img.Content
	}
	layer, err := open(ctx, i)
	if err != nil {
		return err
	}
	defer layer.Close()
	buf := make([]byte, copyBuffer)
	if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(layer, from), buf); err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{layer}, buf)
	return err
}

// body counts what is written to w.
func (r *Registry) body(w io.Writer) io.WriteCloser {
	counted := counter{r, w}
	if r.opts.Layer == nil {
		return counted
	}
	return r.opts.Layer(counted)
}

type counter struct {
	*Registry
	w io.Writer
}

// Write implements io.Writer.
func (c counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.sent.Add(int64(n))
	return n, err
}

// Close implements io.Closer.
func (counter) Close() error { return nil }
