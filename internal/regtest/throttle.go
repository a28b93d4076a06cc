package regtest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Advice is how a throttled answer says how long to wait.
type Advice int

// The forms of advice seen in the field.
const (
	NoAdvice      Advice = iota // it does not say
	AdviceSeconds               // Retry-After: 7
	AdviceDate                  // Retry-After: Wed, 21 Oct 2026 07:28:00 GMT
	AdviceBody                  // a Go duration in the message, as ghcr.io writes it
)

// Throttle is a token bucket for each client IP.
type Throttle struct {
	// Requests are refilled evenly over Window: Requests 1 and Window 1s is one each second. Both must be positive.
	Requests int
	Window   time.Duration
	// Burst is the size of the bucket, full at first; 0 is Requests.
	Burst int
	// Kinds are the kinds of requests that count; none means index and manifest, as on Docker Hub.
	Kinds []Kind
	// CountHead counts HEAD requests as well.
	CountHead bool
	// Advice says how the wait is told.
	Advice Advice
	// HubHeaders adds Docker Hub's ratelimit-limit, ratelimit-remaining and docker-ratelimit-source.
	HubHeaders bool
}

// limiter keeps the buckets by the generic cell rate algorithm: for each client the time at which its bucket is full
// again. It counts in whole nanoseconds, so that a test can name the instant at which a request passes.
type limiter struct {
	Throttle
	mu   sync.Mutex
	full map[string]time.Time
}

func newLimiter(t Throttle) *limiter {
	if t.Burst == 0 {
		t.Burst = t.Requests
	}
	if len(t.Kinds) == 0 {
		t.Kinds = []Kind{KindIndex, KindManifest}
	}
	return &limiter{Throttle: t, full: map[string]time.Time{}}
}

// take takes a request from the client's bucket. It returns how many are left, and how long to wait where there was
// none.
func (l *limiter) take(client string, now time.Time) (left int, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	each := l.Window / time.Duration(l.Requests)
	full := l.full[client]
	if full.Before(now) {
		full = now
	}
	full = full.Add(each)
	missing := full.Sub(now)
	if wait := missing - time.Duration(l.Burst)*each; wait > 0 {
		return 0, wait
	}
	l.full[client] = full
	return l.Burst - int((missing+each-1)/each), 0
}

// throttled answers 429 in place of next where the client's bucket is empty.
func (r *Registry) throttled(e *entry, next http.Handler) http.Handler {
	l := r.throttle
	if l == nil || !slices.Contains(l.Kinds, e.Kind) || e.Method == http.MethodHead && !l.CountHead {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		left, wait := l.take(e.Client, time.Now())
		if l.HubHeaders {
			window := ";w=" + strconv.Itoa(int(l.Window.Seconds()))
			w.Header().Set("Ratelimit-Limit", strconv.Itoa(l.Requests)+window)
			w.Header().Set("Ratelimit-Remaining", strconv.Itoa(left)+window)
			w.Header().Set("Docker-Ratelimit-Source", e.Client)
		}
		if wait > 0 {
			l.shed(w, wait)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// shed answers that there were too many requests.
func (l *limiter) shed(w http.ResponseWriter, wait time.Duration) {
	message := "rate exceeded"
	seconds := (wait + time.Second - 1) / time.Second
	switch l.Advice {
	case AdviceSeconds:
		w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
	case AdviceDate:
		// A date has whole seconds: round up, or the advice is to come back too early.
		w.Header().Set("Retry-After", time.Now().Add(wait+time.Second-1).UTC().Format(http.TimeFormat))
	case AdviceBody:
		message = fmt.Sprintf("retry-after: %s, allowed: %d/%s", wait, l.Requests, l.Window)
	case NoAdvice:
	}
	writeError(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", message)
}
