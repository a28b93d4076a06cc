package retry

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxAfter is the longest wait that is believed. The longest window in use is Docker Hub's, six hours; values such as
// 9223372037 have been seen and mean nothing.
const maxAfter = 24 * time.Hour

// ParseRetryAfter reads the value of a Retry-After header: seconds or a date (RFC 9110, 10.2.3). A value that is neither,
// negative, in the past, or longer than a day is refused.
func ParseRetryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if isDigits(value) {
		return seconds(value)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return believable(at.Sub(now))
}

// inBody finds the wait in the text of an answer. ghcr.io writes a Go duration there, and no header.
var inBody = regexp.MustCompile(`(?i)\bretry-after: *([0-9][0-9.a-zµμ]*)`)

// ParseRetryAfterBody finds a wait in the body of an answer, as in "toomanyrequests: retry-after: 880.092µs, allowed:
// 44000/minute": a Go duration, or seconds. It refuses what ParseRetryAfter refuses.
func ParseRetryAfterBody(text string) (time.Duration, bool) {
	text = strings.ReplaceAll(text, `\u00b5`, "µ") // as some encoders of JSON write it
	found := inBody.FindStringSubmatch(text)
	if found == nil {
		return 0, false
	}
	value := strings.TrimRight(found[1], ".")
	if isDigits(value) {
		return seconds(value)
	}
	d, err := time.ParseDuration(value)
	if err != nil {
		return 0, false
	}
	return believable(d)
}

func seconds(digits string) (time.Duration, bool) {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > int64(maxAfter/time.Second) {
		return 0, false
	}
	return time.Duration(n) * time.Second, true
}

func believable(d time.Duration) (time.Duration, bool) {
	if d < 0 || d > maxAfter {
		return 0, false
	}
	return d, true
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
