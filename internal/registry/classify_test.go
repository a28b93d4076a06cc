package registry

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/retry"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	met := map[string]bool{}
	for _, tc := range []struct {
		status int
		text   string
		err    error
		what   string
		class  retry.Class
	}{
		{status: 429, what: "429", class: retry.Throttled},
		{status: 429, text: "Data limit exceeded", what: "`data limit exceeded`", class: retry.Permanent},
		{status: 429, text: "toomanyrequests: Rate exceeded", what: "429", class: retry.Throttled},
		{status: 503, text: `{"errors":[{"code":"TOOMANYREQUESTS"}]}`, what: "`toomanyrequests`, `rate exceeded`", class: retry.Throttled},
		{status: 403, text: "Rate exceeded", what: "`toomanyrequests`, `rate exceeded`", class: retry.Throttled},
		{status: 408, what: "408", class: retry.Transient},
		{status: 416, what: "416", class: retry.Uncertain},
		{status: 425, what: "425", class: retry.Transient},
		{status: 500, what: "other 5xx", class: retry.Transient},
		{status: 502, what: "other 5xx", class: retry.Transient},
		{status: 503, what: "other 5xx", class: retry.Transient},
		{status: 504, what: "other 5xx", class: retry.Transient},
		{status: 520, what: "other 5xx", class: retry.Transient},
		{status: 524, what: "other 5xx", class: retry.Transient},
		{status: 507, what: "507", class: retry.Permanent},
		{status: 501, what: "501", class: retry.Permanent},
		{status: 401, what: "401, 403", class: retry.Uncertain},
		{status: 403, what: "401, 403", class: retry.Uncertain},
		{status: 404, text: `{"errors":[{"code":"DENIED"}]}`, what: "`denied`, `unauthorized`", class: retry.Uncertain},
		{
			status: 400, text: `{"errors":[{"code":"MANIFEST_BLOB_UNKNOWN"}]}`, class: retry.Uncertain,
			what: "`manifest_blob_unknown`, `digest_invalid`, `blob_upload_unknown`, `blob_upload_invalid`",
		},
		{status: 404, text: "manifest unknown", what: "other 4xx", class: retry.Permanent},
		{status: 400, what: "other 4xx", class: retry.Permanent},
		{status: 410, what: "other 4xx", class: retry.Permanent},
		{status: 451, what: "other 4xx", class: retry.Permanent},
		{status: 304, what: "another status", class: retry.Uncertain},
		{status: 204, what: "another status", class: retry.Uncertain},
		{err: x509.UnknownAuthorityError{}, what: "certificate not accepted", class: retry.Permanent},
		{err: &tls.CertificateVerificationError{Err: errors.New("x")}, what: "certificate not accepted", class: retry.Permanent},
		{err: &os.PathError{Op: "write", Err: syscall.ENOSPC}, what: "no space left", class: retry.Permanent},
		{err: &net.DNSError{IsNotFound: true}, what: "no such host", class: retry.Uncertain},
		{err: &net.DNSError{IsTemporary: true}, what: "other DNS trouble", class: retry.Transient},
		{err: &stallError{"byte", time.Second}, what: "no connection, no response header, no byte in time", class: retry.Transient},
		{err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, what: "connection refused, reset or cut", class: retry.Transient},
		{err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}, what: "connection refused, reset or cut", class: retry.Transient},
		{err: fmt.Errorf("after 5 of 9 bytes: %w", io.ErrUnexpectedEOF), what: "connection refused, reset or cut", class: retry.Transient},
		{err: os.ErrDeadlineExceeded, what: "connection refused, reset or cut", class: retry.Transient},
		{err: errors.New("http2: server sent GOAWAY and closed the connection"), what: "connection refused, reset or cut", class: retry.Transient},
		{err: &json.SyntaxError{}, what: "HTML or other text where JSON belongs", class: retry.Transient},
		{err: errors.New("something new"), what: "any other error of the network", class: retry.Uncertain},
	} {
		row := classify(observation{status: tc.status, text: strings.ToLower(tc.text), err: tc.err})
		require.Equal(t, tc.what, row.what, "%d %s %v", tc.status, tc.text, tc.err)
		require.Equal(t, tc.class, row.class, row.what)
		met[row.what] = true
	}
	for _, row := range rules {
		require.True(t, met[row.what], "no example of %q", row.what)
		require.NotEmpty(t, row.why)
	}
}
