package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/pullonce/pullonce/internal/retry"
)

// observation is what the client saw of a failed attempt: an answer, or the error instead of one.
type observation struct {
	status int
	// text is the error body in lower case.
	text string
	err  error
}

// rule is one row of the classification table. It applies where everything that it names applies.
type rule struct {
	// what names the row in the docs.
	what string
	// from and to bound the status; 0 is any failed status.
	from, to int
	// words are looked for in the error body; one of them is enough.
	words []string
	// err tells the error instead of an answer.
	err   func(error) bool
	class retry.Class
	// why is the reason for the class.
	why string
}

// rules is the classification table. The first row that applies decides.
var rules = []rule{
	{what: "`data limit exceeded`", from: 400, to: 599, words: []string{"data limit exceeded"}, class: retry.Permanent,
		why: "ECR Public's monthly amount is used up: no wait within a run brings it back"},
	{what: "429", from: 429, to: 429, class: retry.Throttled,
		why: "the registry counts requests; it takes them again when its window moves on"},
	{what: "`toomanyrequests`, `rate exceeded`", from: 400, to: 599, words: []string{"toomanyrequests", "too many requests", "rate exceeded"}, class: retry.Throttled,
		why: "some registries and the proxies before them say it under another status"},
	{what: "408", from: 408, to: 408, class: retry.Transient, why: "the request was slow to arrive; the next may not be"},
	{what: "416", from: 416, to: 416, class: retry.Uncertain, why: "the copy behind this address is shorter than the blob; another one may be whole"},
	{what: "425", from: 425, to: 425, class: retry.Transient, why: "too early, by its own words"},
	{what: "401, 403", from: 401, to: 401, class: retry.Uncertain, why: "a token may have expired or been shed under load; a real refusal looks the same"},
	{what: "401, 403", from: 403, to: 403, class: retry.Uncertain, why: "a token may have expired or been shed under load; a real refusal looks the same"},
	{what: "`denied`, `unauthorized`", from: 400, to: 499, words: []string{`"denied"`, `"unauthorized"`}, class: retry.Uncertain,
		why: "ghcr denies public images now and then and serves them on the next try"},
	{what: "`manifest_blob_unknown`, `digest_invalid`, `blob_upload_unknown`, `blob_upload_invalid`", from: 400, to: 499,
		words: []string{"manifest_blob_unknown", "digest_invalid", "blob_upload_unknown", "blob_upload_invalid"}, class: retry.Uncertain,
		why: "what was sent got lost on the way, or is out of sight while somebody else sends the same"},
	{what: "other 4xx", from: 400, to: 499, class: retry.Permanent, why: "the registry understood and said no: not there, not valid, not supported"},
	{what: "501", from: 501, to: 501, class: retry.Permanent, why: "the server does not know how, and won't in ten minutes"},
	{what: "507", from: 507, to: 507, class: retry.Permanent, why: "the registry has no room left, and gets none by being asked"},
	{what: "other 5xx", from: 500, to: 599, class: retry.Transient, why: "the server or something before it is in trouble; 520 to 524 are a CDN's words for it"},
	{what: "another status", from: 100, to: 399, class: retry.Uncertain, why: "no registry should answer so; a proxy in its place may stop to"},

	{what: "certificate not accepted", err: isCertificate, class: retry.Permanent, why: "trust does not come with time"},
	{what: "no space left", err: isNoSpace, class: retry.Permanent, why: "the disk does not empty itself"},
	{what: "no such host", err: isNoSuchHost, class: retry.Uncertain, why: "a resolver under load says so of names that exist; a typo looks the same"},
	{what: "other DNS trouble", err: isDNS, class: retry.Transient, why: "the resolver did not answer"},
	{what: "no connection, no response header, no byte in time", err: isStall, class: retry.Transient, why: "a hang costs one attempt"},
	{what: "connection refused, reset or cut", err: isConnection, class: retry.Transient, why: "restarts, full backlogs and middle boxes pass"},
	{what: "HTML or other text where JSON belongs", err: isGarbled, class: retry.Transient, why: "an error page with a good status; throttled registries have served some"},
	{what: "any other error of the network", err: func(error) bool { return true }, class: retry.Uncertain, why: "unknown: a few tries tell"},
}

// applies says whether the row is about o.
func (r rule) applies(o observation) bool {
	if o.err != nil {
		return r.err != nil && r.err(o.err)
	}
	hasWord := func(word string) bool { return strings.Contains(o.text, word) }
	return r.err == nil && r.from <= o.status && o.status <= r.to &&
		(r.words == nil || slices.ContainsFunc(r.words, hasWord))
}

// classify finds the first row that applies.
func classify(o observation) rule {
	return rules[slices.IndexFunc(rules, func(r rule) bool { return r.applies(o) })]
}

// networkFault classifies an error that came instead of an answer. The caller's own end of the work is no fault of the
// network and passes as it is.
func networkFault(ctx context.Context, host string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if fault, ok := errors.AsType[*Fault](err); ok {
		fault.Host = cmp.Or(fault.Host, host)
		return fault
	}
	return &Fault{Host: host, class: classify(observation{err: err}).class, text: clean(err.Error()), cause: err}
}

func isCertificate(err error) bool {
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, hostname := errors.AsType[x509.HostnameError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	return verification || authority || hostname || invalid
}

func isNoSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) }

func isDNS(err error) bool {
	_, ok := errors.AsType[*net.DNSError](err)
	return ok
}

func isNoSuchHost(err error) bool {
	dns, ok := errors.AsType[*net.DNSError](err)
	return ok && dns.IsNotFound
}

func isGarbled(err error) bool {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, shape := errors.AsType[*json.UnmarshalTypeError](err)
	return syntax || shape
}

func isStall(err error) bool {
	_, ok := errors.AsType[*stallError](err)
	return ok
}

func isConnection(err error) bool {
	for _, known := range []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, http.ErrServerClosed, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED,
		syscall.EPIPE, syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return true
	}
	// net/http keeps the types of its HTTP/2 errors to itself.
	return strings.Contains(err.Error(), "http2: ") || strings.Contains(err.Error(), "stream error: ")
}
