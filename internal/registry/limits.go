package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// What one attempt waits for, at most.
const (
	connectLimit = 10 * time.Second // a connection, TLS included
	headerLimit  = 15 * time.Second // the response header, once connected
	idleLimit    = 30 * time.Second // the next byte of the body
)

// NewTransport makes the transport that a Client uses by default: proxies as the environment says, certificates as the
// system says (SSL_CERT_FILE included), IPv4 and IPv6, and as many idle connections as a prime needs. It sets no limits of
// its own; the Client puts its limits around whichever transport it is given.
func NewTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: connectLimit, KeepAlive: idleLimit}).DialContext,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     90 * time.Second,
		// Layers are compressed as they are, and must arrive as they are.
		DisableCompression: true,
	}
}

// stallError says what did not come in time.
type stallError struct {
	what  string
	limit time.Duration
}

func (e *stallError) Error() string {
	return fmt.Sprintf("no %s within %s", e.what, e.limit.Round(time.Millisecond))
}

// watchdog ends an attempt in which nothing comes. Safe for concurrent use.
type watchdog struct {
	patience *budget
	cancel   context.CancelCauseFunc

	mu      sync.Mutex
	timer   *time.Timer
	resting bool
	quiet   time.Time // since when nothing has come that was waited for
}

func newWatchdog(p *budget, cancel context.CancelCauseFunc) *watchdog {
	return &watchdog{patience: p, cancel: cancel, quiet: time.Now()}
}

// expect begins to wait for what.
func (w *watchdog) expect(what string, limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.resting {
		w.resting, w.quiet = false, time.Now()
	}
	wait := w.patience.cut(limit, time.Since(w.quiet))
	w.timer = time.AfterFunc(wait, func() { w.cancel(&stallError{what, wait}) })
}

// rest stops waiting: what was expected came, or nobody asks for more at the moment.
func (w *watchdog) rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.resting = true
}

// roundTrip is one request and its answer, without redirects, within the limits. The body of the answer is watched too.
func roundTrip(req *http.Request, transport http.RoundTripper, p *budget) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	dog := newWatchdog(p, cancel)
	trace := &httptrace.ClientTrace{
		GetConn: func(string) { dog.expect("connection", connectLimit) },
		GotConn: func(httptrace.GotConnInfo) { dog.expect("response header", answerLimit(req)) },
	}
	dog.expect("response header", answerLimit(req))
	req = req.WithContext(httptrace.WithClientTrace(ctx, trace))
	sent := &sentBody{ReadCloser: req.Body, dog: dog}
	if req.Body != nil && req.Body != http.NoBody {
		req.Body = sent
	}
	resp, err := transport.RoundTrip(req)
	sent.over.Store(true)
	dog.rest()
	if err != nil {
		err = causeOr(ctx, err)
		cancel(nil)
		return nil, err
	}
	resp.Body = &watchedBody{body: resp.Body, dog: dog, explain: func(err error) error { return causeOr(ctx, err) }}
	return resp, nil
}

// watchedBody is a body in which each read is limited. The time between reads is the reader's own and is not.
type watchedBody struct {
	body    io.ReadCloser
	dog     *watchdog
	explain func(error) error // puts the watchdog's reason in place of a bare cancellation
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	b.dog.expect("byte", idleLimit)
	n, err := b.body.Read(p)
	b.dog.rest()
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.explain(err)
	}
	return n, err
}

// Close ends the attempt.
func (b *watchedBody) Close() error {
	b.dog.cancel(nil)
	return b.body.Close()
}

// causeOr is why ctx ended, where that is why there was an error, and else the error.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
