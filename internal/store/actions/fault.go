package actions

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"regexp"
	"time"

	"github.com/pullonce/pullonce/internal/oneline"
	"github.com/pullonce/pullonce/internal/retry"
)

// fault is what went wrong in one try, with the class that decides about the next one. Its text is one line and holds
// no signature.
type fault struct {
	status int // of the answer; 0 where there was none
	class  retry.Class
	after  time.Duration
	text   string
	cause  error
}

var _ retry.Classified = (*fault)(nil)

// Error implements error.
func (f *fault) Error() string { return f.text }

// Unwrap gives the error beneath, where there is one.
func (f *fault) Unwrap() error { return f.cause }

// RetryClass implements retry.Classified.
func (f *fault) RetryClass() retry.Class { return f.class }

// RetryAfter implements retry.Classified.
func (f *fault) RetryAfter() time.Duration { return f.after }

// classOf classifies an answer that is not yes, of the service or of the blob store.
func classOf(status int) retry.Class {
	switch {
	case status == http.StatusTooManyRequests:
		return retry.Throttled
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return retry.Uncertain
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly:
		return retry.Transient
	case status == http.StatusNotImplemented, status/100 == 4:
		return retry.Permanent
	case status/100 == 5:
		return retry.Transient
	}
	return retry.Uncertain // a redirect or the like: no answer of theirs, a proxy's perhaps
}

// networkFault classifies an error that came instead of an answer. The caller's own end of the work is no fault of the
// network and passes as it is.
func networkFault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f := &fault{class: retry.Transient, text: clean(err.Error()), cause: err}
	switch dns, isDNS := errors.AsType[*net.DNSError](err); {
	case isCertificate(err):
		f.class = retry.Permanent
	case isDNS && dns.IsNotFound:
		f.class = retry.Uncertain // a resolver under load says so of names that exist
	}
	return f
}

func isCertificate(err error) bool {
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, hostname := errors.AsType[x509.HostnameError](err)
	return verification || authority || hostname
}

// query is the part of a URL that may hold a signature.
var query = regexp.MustCompile(`\?[^\s"']*`)

// token is what the service's tokens look like. A proxy may repeat one, and cut short it would be a secret that no mask knows.
var token = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)*`)

// clean makes a foreign text one short line without tokens and without the queries of URLs.
func clean(text string) string {
	return oneline.Of(token.ReplaceAllString(query.ReplaceAllString(text, "?…"), "…"))
}
