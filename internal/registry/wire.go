package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pullonce/pullonce/internal/pace"
	"github.com/pullonce/pullonce/internal/retry"
)

const (
	// maxRedirects is how many a blob may take from the registry to where it lies.
	maxRedirects = 10
	// maxErrorBody is how much of an error answer is read, in bytes.
	maxErrorBody = 8 << 10
)

// request is one question to a registry, whichever host it goes to in the end.
type request struct {
	method     string
	repository string
	// path is what follows the repository, as in "manifests/7" or "blobs/sha256:…".
	path   string
	accept string
	// offset is the first byte that is wanted.
	offset   int64
	patience *budget
}

// sendOnce asks h once: after its pacing, through redirects, and with every answer but success made a Fault.
func (c *Client) sendOnce(ctx context.Context, h *host, r request, g grant) (*http.Response, error) {
	if cooling := h.pace.Cooling(time.Now()); cooling > 0 && cooling <= r.patience.left() {
		c.notify(Event{Kind: Wait, Host: h.domain, Wait: cooling, Text: h.domain + " asks for a pause"})
	}
	if err := h.pace.wait(ctx, r.patience.left()); err != nil {
		return nil, networkFault(ctx, h.domain, err)
	}
	resp, err := c.follow(ctx, h, r, g)
	if speaksPlain(err) && h.fallBack() {
		resp, err = c.follow(ctx, h, r, g)
	}
	if err != nil {
		return nil, networkFault(ctx, h.domain, err)
	}
	h.noteLimit(resp.Header)
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent {
		return resp, nil
	}
	fault := c.answerFault(h.domain, resp)
	if fault.class == retry.Throttled || fault.after > 0 {
		c.coolDown(h, fault)
	}
	return nil, fault
}

// speaksPlain says whether err came of speaking TLS to a server that speaks HTTP.
func speaksPlain(err error) bool {
	header, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok && string(header.RecordHeader[:]) == "HTTP/"
}

// coolDown leaves the host alone for as long as it asks, for all pulls.
func (c *Client) coolDown(h *host, fault *Fault) {
	wait := fault.after
	if wait <= 0 {
		wait = pace.CoolDown
	}
	h.pace.CoolDown(time.Now(), wait)
}

// follow sends the request and follows its redirects. What authorizes it goes to the registry alone.
func (c *Client) follow(ctx context.Context, h *host, r request, g grant) (*http.Response, error) {
	target, err := url.Parse(h.base() + r.repository + "/" + r.path)
	if err != nil {
		return nil, permanently("building the request: %s", clean(err.Error()))
	}
	origin := target
	for range maxRedirects {
		req, err := c.newRequest(ctx, r, target)
		if err != nil {
			return nil, err
		}
		if g.header != "" && sameOrigin(origin, target) {
			req.Header.Set("Authorization", g.header)
		}
		resp, err := roundTrip(req, c.transport, r.patience)
		if err != nil {
			return nil, err
		}
		next := resp.Header.Get("Location")
		if resp.StatusCode < 300 || resp.StatusCode > 399 || next == "" {
			return resp, nil
		}
		_ = resp.Body.Close()
		if target, err = redirect(h, target, next); err != nil {
			return nil, err
		}
	}
	return nil, &Fault{class: retry.Uncertain, text: fmt.Sprintf("redirects more than %d times", maxRedirects)}
}

func (c *Client) newRequest(ctx context.Context, r request, target *url.URL) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), nil)
	if err != nil {
		return nil, permanently("building the request: %s", clean(err.Error()))
	}
	req.Header.Set("User-Agent", c.options.UserAgent)
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	if r.offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", r.offset))
	}
	return req, nil
}

// redirect is where a redirect leads. It must not lead out of TLS, unless the registry itself is without.
func redirect(h *host, from *url.URL, location string) (*url.URL, error) {
	to, err := from.Parse(location)
	if err != nil {
		return nil, &Fault{class: retry.Uncertain, text: "redirects to what is no URL"}
	}
	if to.Scheme != "https" && (to.Scheme != "http" || !h.plain) {
		return nil, permanently("redirects to %s, without TLS", clean(to.Scheme+"://"+to.Host))
	}
	return to, nil
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// answerFault classifies an answer that is no success, and closes it.
func (c *Client) answerFault(domain string, resp *http.Response) *Fault {
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what can be read of it has to do
	status := resp.StatusCode
	fault := &Fault{
		Host:   domain,
		Status: status,
		class:  classify(observation{status: status, text: strings.ToLower(string(body))}).class,
		after:  askedWait(resp.Header, body, time.Now()),
		text:   answerText(resp, c.secrets.hide(errorText(resp.Header, body))),
	}
	if ch, ok := parseChallenge(resp.Header); ok && status == http.StatusUnauthorized {
		fault.cause = &challengeError{ch}
	}
	return fault
}

// askedWait is how long the answer asks to wait: by its header, else by its text.
func askedWait(h http.Header, body []byte, now time.Time) time.Duration {
	if wait, ok := retry.ParseRetryAfter(h.Get("Retry-After"), now); ok {
		return wait
	}
	wait, _ := retry.ParseRetryAfterBody(string(body))
	return wait
}

// tokenTransport carries the token exchange: within the limits, with every refusal made a Fault.
type tokenTransport struct {
	client   *Client
	host     *host
	patience *budget
}

// RoundTrip implements http.RoundTripper.
func (t *tokenTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", t.client.options.UserAgent)
	resp, err := roundTrip(req, t.client.transport, t.patience)
	if err != nil {
		return nil, networkFault(req.Context(), t.host.domain, err)
	}
	// go-containerregistry falls back to the older exchange where the newer one, a POST, is not there.
	missing := req.Method == http.MethodPost && resp.StatusCode == http.StatusNotFound
	if resp.StatusCode < 400 || missing {
		return resp, nil
	}
	fault := t.client.answerFault(t.host.domain, resp)
	fault.text = "getting a token: " + fault.text
	if fault.class == retry.Throttled || fault.after > 0 {
		t.client.coolDown(t.host, fault)
	}
	return nil, fault
}
