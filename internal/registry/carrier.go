package registry

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pullonce/pullonce/internal/retry"
)

// writeLimit is how long the answer to what was sent may take: some registries move a layer to where it stays before they
// say that they have it.
const writeLimit = 2 * time.Minute

// carrier carries the requests of go-containerregistry: within the limits, at the pace of the host, and with an answer
// that tells of trouble made a Fault. 401 and 404 pass: the one asks for a token, the other says that something is not
// there yet.
type carrier struct {
	client   *Client
	patience *budget
}

var _ http.RoundTripper = (*carrier)(nil)

// RoundTrip implements http.RoundTripper.
func (t *carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	h := t.client.host(req.URL.Host)
	if err := t.scheme(h, req.URL.Scheme); err != nil {
		return nil, err
	}
	if err := h.pace.wait(req.Context(), t.patience.left()); err != nil {
		return nil, networkFault(req.Context(), h.domain, err)
	}
	if _, secret, ok := strings.Cut(req.Header.Get("Authorization"), " "); ok {
		t.client.keepSecret(secret)
	}
	resp, err := roundTrip(req, t.client.transport, t.patience)
	if err != nil {
		return nil, networkFault(req.Context(), h.domain, err)
	}
	if resp.StatusCode < 400 || resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusNotFound {
		return resp, nil
	}
	fault := t.client.answerFault(h.domain, resp)
	if fault.class == retry.Throttled || fault.after > 0 {
		t.client.coolDown(h, fault)
	}
	return nil, fault
}

// scheme holds a host to TLS, or off it where it is known to have none: go-containerregistry goes without wherever an
// address looks private, and tries both where it may.
func (t *carrier) scheme(h *host, scheme string) error {
	switch {
	case scheme != "https" && !h.plain:
		return permanently("asked for without TLS").at(h.domain)
	case scheme == "https" && strings.HasPrefix(h.base(), "http://"):
		return errors.New(h.domain + " speaks HTTP without TLS")
	}
	return nil
}

// sentBody is the body of a request, watched: that the connection takes no more of it is a stall, that its source gives
// no more is the source's own affair.
type sentBody struct {
	io.ReadCloser
	dog  *watchdog
	over atomic.Bool // the answer is here
}

// Read implements io.Reader.
func (b *sentBody) Read(p []byte) (int, error) {
	if b.over.Load() {
		return b.ReadCloser.Read(p)
	}
	b.dog.rest()
	n, err := b.ReadCloser.Read(p)
	switch {
	case b.over.Load():
	case err != nil:
		b.dog.expect("response header", writeLimit)
	default:
		b.dog.expect("room for more bytes", idleLimit)
	}
	return n, err
}

// answerLimit is how long the answer to a request may take.
func answerLimit(req *http.Request) time.Duration {
	switch cmp.Or(req.Method, http.MethodGet) {
	case http.MethodGet, http.MethodHead:
		return headerLimit
	default:
		return writeLimit
	}
}
