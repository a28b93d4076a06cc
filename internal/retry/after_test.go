package retry_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/retry"
)

// noon is the time of the answers in these tests.
func noon() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

func TestParseRetryAfter(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"0":                              0,
		"7":                              7 * time.Second,
		" 120 ":                          2 * time.Minute,
		"86400":                          24 * time.Hour,
		"Mon, 30 Nov 2026 12:01:30 GMT":  90 * time.Second,
		"Monday, 30-Nov-26 12:01:30 GMT": 90 * time.Second,
		"Mon Nov 30 12:01:30 2026":       90 * time.Second,
		"86401":                          -1,
		"9223372037":                     -1,
		"99999999999999999999999":        -1,
		"-1":                             -1,
		"+5":                             -1,
		"1.5":                            -1,
		"1e3":                            -1,
		"":                               -1,
		"soon":                           -1,
		"880.092µs":                      -1,
		"Mon, 30 Nov 2026 11:59:59 GMT":  -1,
		"Mon, 30 Nov 2099 12:00:00 GMT":  -1,
	} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			got, ok := retry.ParseRetryAfter(value, noon())
			requireParsed(t, want, got, ok)
		})
	}
}

func TestParseRetryAfterBody(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"toomanyrequests: retry-after: 880.092µs, allowed: 44000/minute":                               880092,
		`{"errors":[{"code":"TOOMANYREQUESTS","message":"retry-after: 1.5s, allowed: 44000/minute"}]}`: 1500 * time.Millisecond,
		`{"message":"retry-after: 880.092\u00b5s, allowed"}`:                                           880092,
		"retry-after: 12μs":                  12000,
		"Retry-After: 1m30s.":                90 * time.Second,
		"RETRY-AFTER: 30":                    30 * time.Second,
		"retry-after:250ms":                  250 * time.Millisecond,
		"retry-after: -5s":                   -1,
		"retry-after: 48h":                   -1,
		"retry-after: 9223372037":            -1,
		"retry-after: 99999999999999999999h": -1,
		"retry-after: 5 parsecs":             5 * time.Second,
		"retry-after: 5parsecs":              -1,
		"no-retry-after":                     -1,
		"retry-after: later":                 -1,
		"":                                   -1,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			got, ok := retry.ParseRetryAfterBody(text)
			requireParsed(t, want, got, ok)
		})
	}
}

// requireParsed holds a parsed wait to want; -1 is a refusal.
func requireParsed(t *testing.T, want, got time.Duration, ok bool) {
	t.Helper()
	if want < 0 {
		require.False(t, ok)
		require.Zero(t, got)
		return
	}
	require.True(t, ok)
	require.Equal(t, want, got)
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, seed := range []string{"0", "7", "-1", "9223372037", "Mon, 30 Nov 2026 12:01:30 GMT", "Mon, 30 Nov 2026 11:00:00 GMT", " 5\t", "1e9", "²"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got, ok := retry.ParseRetryAfter(value, noon())
		requireBelievable(t, got, ok)
		if !ok {
			return
		}
		again, ok := retry.ParseRetryAfter(strconv.Itoa(int(got/time.Second)), noon())
		require.True(t, ok)
		require.Equal(t, got, again)
		again, ok = retry.ParseRetryAfter(noon().Add(got).Format(http.TimeFormat), noon())
		require.True(t, ok)
		require.Equal(t, got, again)
	})
}

func FuzzParseRetryAfterBody(f *testing.F) {
	for _, seed := range []string{"retry-after: 880.092µs, allowed: 44000/minute", "retry-after: -5s", "retry-after: 9223372037", "retry-after: 1m30s.", `retry-after: 1\u00b5s`, "retry-after: .5s", "retry-after: 1..2s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := retry.ParseRetryAfterBody(text)
		requireBelievable(t, got, ok)
		if !ok {
			return
		}
		again, ok := retry.ParseRetryAfterBody("toomanyrequests: retry-after: " + got.String() + ", allowed: 1/minute")
		require.True(t, ok)
		require.Equal(t, got, again)
	})
}

func requireBelievable(t *testing.T, got time.Duration, ok bool) {
	t.Helper()
	require.GreaterOrEqual(t, got, time.Duration(0))
	require.LessOrEqual(t, got, 24*time.Hour)
	if !ok {
		require.Zero(t, got)
	}
}
