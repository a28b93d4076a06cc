package actions

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// connectLimit is how long a connection may take, and its TLS as long again.
const connectLimit = 10 * time.Second

// newTransport is the transport by default: proxies as the environment says, certificates as the system says.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: connectLimit}).DialContext,
		TLSHandshakeTimeout: connectLimit,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 32,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true, // ranges must come as they are
	}
}

// quietLimit is how long a try may go on in which no byte moves either way.
const quietLimit = 30 * time.Second

var errQuiet = errors.New("no byte within " + quietLimit.String())

// watched ends a try in which nothing moves, so that a hang costs one.
type watched struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper. The body of the answer must be read without pause.
func (w watched) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(quietLimit, func() { cancel(errQuiet) })
	explain := func(err error) error {
		if err != nil && err != io.EOF && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	end := func() { timer.Stop(); cancel(nil) }
	req = req.WithContext(ctx)
	if req.Body != nil && req.Body != http.NoBody {
		req.Body = &watchedBody{ReadCloser: req.Body, timer: timer, explain: explain, end: func() {}}
	}
	resp, err := w.next.RoundTrip(req)
	if err != nil {
		err = explain(err)
		end()
		return nil, err
	}
	timer.Reset(quietLimit)
	resp.Body = &watchedBody{ReadCloser: resp.Body, timer: timer, explain: explain, end: end}
	return resp, nil
}

// watchedBody says that bytes move.
type watchedBody struct {
	io.ReadCloser
	timer   *time.Timer
	explain func(error) error // puts the reason in place of a bare cancellation
	end     func()
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.timer.Reset(quietLimit)
	}
	return n, b.explain(err)
}

func (b *watchedBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
