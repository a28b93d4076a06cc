package regtest

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
)

// Transport is the client's side of a network that has only this registry, under every name. Requests come from
// clientIP. There are no sockets, so it works inside a testing/synctest bubble.
func (r *Registry) Transport(clientIP string) http.RoundTripper {
	return wire{client: clientIP, route: func(string) (http.Handler, bool) { return r, true }}
}

// Transport is the client's side of a network with several hosts, by the host and port of their URLs. A host that is
// not among them does not exist: that is a *net.DNSError.
func Transport(clientIP string, hosts map[string]http.Handler) http.RoundTripper {
	return wire{client: clientIP, route: func(host string) (http.Handler, bool) {
		h, ok := hosts[host]
		return h, ok
	}}
}

type wire struct {
	client string
	route  func(host string) (http.Handler, bool)
}

// RoundTrip implements http.RoundTripper. It honours the request's context before the header and in the body, and
// ends the handler's context when the body is closed, as a server does whose client has gone.
func (t wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	if err := context.Cause(req.Context()); err != nil {
		return nil, err
	}
	handler, ok := t.route(req.URL.Host)
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: req.URL.Hostname(), IsNotFound: true}
	}
	ctx, cancel := context.WithCancel(req.Context())
	x := newExchange(req, cancel)
	context.AfterFunc(ctx, func() { x.body.CloseWithError(context.Cause(ctx)) })
	go x.serve(handler, t.serverSide(ctx, req))
	select {
	case <-x.started:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if x.response == nil {
		cancel()
		return nil, x.err
	}
	return x.response, nil
}

// serverSide is the request as the server sees it.
func (t wire) serverSide(ctx context.Context, req *http.Request) *http.Request {
	in := req.Clone(ctx)
	in.RemoteAddr = net.JoinHostPort(t.client, "40000")
	in.RequestURI = req.URL.RequestURI()
	if in.Host == "" {
		in.Host = req.URL.Host
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	if req.URL.Scheme == "https" {
		in.TLS = &tls.ConnectionState{HandshakeComplete: true, ServerName: req.URL.Hostname()}
	}
	return in
}

// exchange is one request and its answer: the ResponseWriter that the handler has, and the Response that the client
// gets. Its body is a pipe, so the client has read what the handler has written.
type exchange struct {
	header   http.Header
	request  *http.Request
	body     *io.PipeWriter
	reader   io.ReadCloser
	started  chan struct{} // closed once response or err is set
	response *http.Response
	err      error
	written  int64
}

func newExchange(req *http.Request, cancel context.CancelFunc) *exchange {
	r, w := io.Pipe()
	return &exchange{
		header: http.Header{}, request: req, body: w,
		reader: readCloser{r, cancel}, started: make(chan struct{}),
	}
}

// readCloser tells the handler when the client has had enough.
type readCloser struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (rc readCloser) Close() error {
	rc.cancel()
	return rc.PipeReader.Close()
}

// Header implements http.ResponseWriter.
func (x *exchange) Header() http.Header { return x.header }

// Flush implements http.Flusher; a pipe keeps nothing back.
func (x *exchange) Flush() {
	if x.response == nil && x.err == nil {
		x.WriteHeader(http.StatusOK)
	}
}

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	if x.response != nil || x.err != nil {
		return
	}
	length, err := strconv.ParseInt(x.header.Get("Content-Length"), 10, 64)
	if err != nil {
		length = -1
	}
	x.response = &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: x.header.Clone(), Body: x.reader, ContentLength: length, Request: x.request,
	}
	close(x.started)
}

// Write implements http.ResponseWriter, with net/http's treatment of HEAD and of a body longer than declared.
func (x *exchange) Write(p []byte) (int, error) {
	x.Flush()
	if x.err != nil {
		return 0, x.err
	}
	if x.request.Method == http.MethodHead {
		return len(p), nil
	}
	if declared := x.response.ContentLength; declared >= 0 && x.written+int64(len(p)) > declared {
		return 0, http.ErrContentLength
	}
	n, err := x.body.Write(p)
	x.written += int64(n)
	return n, err
}

// fail breaks the connection; err is what the client sees.
func (x *exchange) fail(err error) {
	if x.err != nil {
		return
	}
	x.err = err
	if x.response == nil {
		close(x.started)
	}
	x.body.CloseWithError(x.err)
}

// serve runs the handler and ends the body as net/http would end the connection.
func (x *exchange) serve(h http.Handler, req *http.Request) {
	defer func() {
		if v := recover(); v == nil {
			x.finish()
		} else if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			x.fail(io.ErrUnexpectedEOF)
		} else {
			panic(v)
		}
	}()
	h.ServeHTTP(x, req)
}

func (x *exchange) finish() {
	if x.err != nil {
		return
	}
	if err := context.Cause(x.request.Context()); err != nil {
		x.fail(err)
		return
	}
	x.Flush()
	declared := x.response.ContentLength
	if x.request.Method != http.MethodHead && x.written < declared {
		x.body.CloseWithError(io.ErrUnexpectedEOF)
		return
	}
	_ = x.body.Close() // documented never to fail
}
