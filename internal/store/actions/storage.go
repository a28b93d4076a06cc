package actions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/pullonce/pullonce/internal/retry"
)

// errSigned says that the blob store does not take a URL's signature, as a rule because its time is over.
var errSigned = errors.New("the signed URL is refused")

// errGone says that there is no blob where one must be.
var errGone = errors.New("the blob is gone")

// storage moves bytes to and from the blob store behind the cache, by signed URLs. Each method is one try, except for
// upload. Safe for concurrent use.
type storage struct {
	transport http.RoundTripper
	policy    retry.Policy
	buffers   buffers
}

// Do implements policy.Transporter.
func (s storage) Do(req *http.Request) (*http.Response, error) { return s.transport.RoundTrip(req) }

// client is for one URL. Nothing is tried again in it: the loop is elsewhere.
func (s storage) client(signed string) (*blockblob.Client, error) {
	c, err := blockblob.NewClientWithNoCredential(signed, &blockblob.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: s,
		Retry:     policy.RetryOptions{MaxRetries: -1},
		Telemetry: policy.TelemetryOptions{ApplicationID: "pullonce"},
	}})
	if err != nil {
		return nil, &fault{text: "the service's URL is no URL of a blob"} // err may show it
	}
	return c, nil
}

// head asks for size and time of a blob.
func (s storage) head(ctx context.Context, signed string) (size int64, modified time.Time, err error) {
	c, err := s.client(signed)
	if err != nil {
		return 0, time.Time{}, err
	}
	p, err := c.GetProperties(ctx, nil)
	if err != nil {
		return 0, time.Time{}, storageFault(ctx, err)
	}
	if p.ContentLength != nil {
		size = *p.ContentLength
	}
	if p.LastModified != nil {
		modified = *p.LastModified
	}
	return size, modified, nil
}

// get reads up to n bytes from off on, into buf where it has room, and says how many the blob has. Fewer than n are
// right only at its end.
func (s storage) get(ctx context.Context, signed string, off int64, n int, buf []byte) (data []byte, total int64, err error) {
	c, err := s.client(signed)
	if err != nil {
		return nil, 0, err
	}
	resp, err := c.DownloadStream(ctx, &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: off, Count: int64(n)}})
	if err != nil {
		return nil, 0, storageFault(ctx, err)
	}
	defer resp.Body.Close()
	if resp.ContentRange == nil {
		return nil, 0, &fault{class: retry.Transient, text: "the whole came where a range belongs"}
	}
	if n, total, err = rangeOf(*resp.ContentRange, off, n); err != nil {
		return nil, 0, err
	}
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	if read, err := io.ReadFull(resp.Body, buf[:n]); err != nil {
		f := networkFault(ctx, err)
		if ctx.Err() == nil {
			f = fmt.Errorf("%d of %d bytes: %w", read, n, f)
		}
		return nil, 0, f
	}
	return buf[:n], total, nil
}

// rangeOf reads a Content-Range (RFC 9110, section 14.4), which must be that of the n bytes from off on, or of those that
// are left there, and says how many those are.
func rangeOf(header string, off int64, n int) (size int, total int64, err error) {
	var from, to int64
	_, err = fmt.Sscanf(header, "bytes %d-%d/%d", &from, &to, &total)
	if err != nil || from != off || to < from || to >= total || to-from != min(int64(n), total-off)-1 {
		return 0, 0, &fault{class: retry.Transient, text: fmt.Sprintf("another range came: %q", clean(header))}
	}
	return int(to - from + 1), total, nil
}

// again does what the SDK does once, on the schedule.
func (s storage) again(ctx context.Context, op func(context.Context) error) error {
	_, err := retry.Do(ctx, s.policy, func(ctx context.Context, _ int) error {
		if err := op(ctx); err != nil {
			return storageFault(ctx, err)
		}
		return nil
	})
	return err
}

// storageFault classifies an error of the SDK.
func storageFault(ctx context.Context, err error) error {
	answer, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok || ctx.Err() != nil {
		return networkFault(ctx, err)
	}
	f := &fault{status: answer.StatusCode, class: classOf(answer.StatusCode)}
	f.text = strings.TrimSpace(fmt.Sprintf("blob store: HTTP %d %s", answer.StatusCode, clean(answer.ErrorCode)))
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		f.cause = errSigned
	case http.StatusNotFound:
		f.cause = errGone
	case http.StatusRequestedRangeNotSatisfiable:
		f.cause = io.ErrUnexpectedEOF
	case http.StatusServiceUnavailable: // "Server Busy"
		f.class = retry.Throttled
	}
	if answer.RawResponse != nil {
		if after, ok := retry.ParseRetryAfter(answer.RawResponse.Header.Get("Retry-After"), time.Now()); ok {
			f.after = after
		}
	}
	return f
}
