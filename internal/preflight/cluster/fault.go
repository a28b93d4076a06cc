package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/pullonce/pullonce/internal/oneline"
	"github.com/pullonce/pullonce/internal/retry"
)

// fault is a try without an answer.
type fault struct {
	class retry.Class
	after time.Duration
	err   error
}

var _ retry.Classified = (*fault)(nil)

// Error implements error.
func (f *fault) Error() string { return oneline.Of(f.err.Error()) }

// Unwrap gives the cause.
func (f *fault) Unwrap() error { return f.err }

// RetryClass implements retry.Classified.
func (f *fault) RetryClass() retry.Class { return f.class }

// RetryAfter implements retry.Classified.
func (f *fault) RetryAfter() time.Duration { return f.after }

// classOfStatus says what a status is worth that is no answer. While a control plane is replaced, its servers refuse users
// that they have not yet read the roles of, and tokens that they have not yet read the keys of.
func classOfStatus(status int) retry.Class {
	switch {
	case status == http.StatusTooManyRequests:
		return retry.Throttled
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusRequestTimeout, status >= 500:
		return retry.Transient
	default:
		return retry.Permanent
	}
}

// refused is a response of another status than that of an answer.
func refused(resp *http.Response, body []byte) error {
	f := &fault{class: classOfStatus(resp.StatusCode), err: statusError{resp.Status, reasonIn(body)}}
	if after, ok := retry.ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now()); ok {
		f.after = after
	}
	return f
}

// statusError is a status and what was said with it.
type statusError struct{ status, said string }

// Error implements error.
func (e statusError) Error() string {
	if e.said == "" {
		return e.status
	}
	return e.status + ": " + e.said
}

// reasonIn is the message of the API's Status object, or of whoever answered in its place.
func reasonIn(body []byte) string {
	var status struct{ Message string }
	if json.Unmarshal(body, &status) == nil {
		return oneline.Of(status.Message)
	}
	return oneline.Of(string(body))
}

// notAnAnswer is a response that has the status of an answer and is none: a page of something before the API.
func notAnAnswer(body []byte) error {
	return &fault{class: retry.Transient, err: fmt.Errorf("what answered is no Kubernetes API: %.100q", body)}
}

// unreadable is that configuration or credentials can't be read, which were readable in the beginning: files that are
// being replaced are, the next time.
func unreadable(err error) error { return &fault{class: retry.Uncertain, err: err} }

// unreachable is that no response came. Where ctx ended, err is the cause of that.
func unreachable(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return &fault{class: classOfNetwork(err), err: err}
}

func classOfNetwork(err error) retry.Class {
	if f, ok := errors.AsType[*fault](err); ok {
		return f.class
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return retry.Uncertain
	}
	if isDistrust(err) || errors.Is(err, context.Canceled) {
		return retry.Permanent
	}
	if _, ok := errors.AsType[net.Error](err); ok || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return retry.Transient
	}
	return retry.Uncertain
}

// isDistrust says whether we don't trust the server, or it speaks no TLS. Neither comes with time.
func isDistrust(err error) bool {
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	return unverified || unknown || plain || errors.Is(err, http.ErrSchemeMismatch)
}

// proxyRefused makes a fault of a proxy that does not connect: 502 and the like are its words for an API that can't be
// reached, and 403 may be.
func proxyRefused(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return &fault{class: classOfStatus(resp.StatusCode), err: fmt.Errorf("the proxy: %s", resp.Status)}
}
