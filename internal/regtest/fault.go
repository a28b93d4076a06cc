package regtest

import (
	"net/http"
	"strconv"
	"syscall"
	"time"
)

// Fault is one way of answering badly. next is the right answer, which the fault may spoil, delay or withhold.
type Fault func(w http.ResponseWriter, req *http.Request, next http.Handler)

// Pass is no fault: it holds a place in a script.
func Pass(w http.ResponseWriter, req *http.Request, next http.Handler) { next.ServeHTTP(w, req) }

// Status answers with a status and the error body that belongs to it.
func Status(status int) Fault {
	return Answer(status, "application/json", ErrorBody("UNKNOWN", http.StatusText(status)))
}

// Answer answers with a status and a body, verbatim. headers are names and values in turn.
func Answer(status int, mediaType, body string, headers ...string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		writeBody(w, status, mediaType, body)
	}
}

// HTML answers 200 with a page, as a throttled Docker Hub has done in place of a manifest.
func HTML() Fault {
	return Answer(http.StatusOK, "text/html; charset=utf-8", "<!DOCTYPE html><html><body>Please slow down.</body></html>")
}

// Hang accepts the request and never answers.
func Hang() Fault {
	return func(_ http.ResponseWriter, req *http.Request, _ http.Handler) { <-req.Context().Done() }
}

// Delay answers well, but only after d.
func Delay(d time.Duration) Fault {
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if pause(req, d) {
			next.ServeHTTP(w, req)
		}
	}
}

// Drop ends the connection without a header.
func Drop() Fault { return Fail(syscall.ECONNRESET) }

// Fail ends the connection without a header. Through Transport the client's round trip fails with err, as it does for
// what happens before a server has a say (refused, no such host); over a listener it is always a reset.
func Fail(err error) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { hangUp(w, err) }
}

// Reset resets the connection once n bytes of the body were sent. Over a listener the kernel may discard some of them.
func Reset(n int64) Fault {
	return cutting(n, func(w http.ResponseWriter, _ *http.Request) { hangUp(w, syscall.ECONNRESET) })
}

// Truncate ends the connection in order once n bytes of the body were sent. Content-Length is right.
func Truncate(n int64) Fault {
	return cutting(n, func(http.ResponseWriter, *http.Request) {})
}

// Stall sends n bytes of the body and then nothing, with the connection open.
func Stall(n int64) Fault {
	return cutting(n, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
}

// Drip sends the body in chunks of n bytes and waits for each between them.
func Drip(n int, each time.Duration) Fault {
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		next.ServeHTTP(&dripWriter{w, req, n, each}, req)
	}
}

// Flip answers with the lowest bit inverted of the byte at offset. Offset counts from the start of the document or
// blob, also where a range of it is answered.
func Flip(offset int64) Fault {
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		next.ServeHTTP(&flipWriter{ResponseWriter: w, offset: offset}, req)
	}
}

// Resize answers with a body that is by bytes longer (zeros follow) or, where it is negative, shorter than it should
// be, under a Content-Length that agrees with it: what a proxy sends that has kept half a blob for good.
func Resize(by int64) Fault {
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		resized := &resizeWriter{ResponseWriter: w, by: by}
		next.ServeHTTP(resized, req)
		resized.finish(req)
	}
}

// Redirect sends the client to base, as in "http://127.0.0.2:5000", for the same path.
func Redirect(base string) Fault {
	return func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
		http.Redirect(w, req, base+req.URL.Path, http.StatusTemporaryRedirect)
	}
}

// RedirectLoop sends the client on to the same place. Use it with Always: a script counts each round.
func RedirectLoop() Fault {
	return func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
		round, err := strconv.Atoi(req.URL.Query().Get("round"))
		if err != nil {
			round = 0
		}
		http.Redirect(w, req, req.URL.Path+"?round="+strconv.Itoa(round+1), http.StatusTemporaryRedirect)
	}
}

// ExpireTokens makes every token that was handed out invalid, the one of this request too, and then answers.
func (r *Registry) ExpireTokens() Fault {
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		r.RevokeTokens()
		next.ServeHTTP(w, req)
	}
}

// pause waits for d. It says whether the client is still there.
func pause(req *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-req.Context().Done():
		return false
	}
}
