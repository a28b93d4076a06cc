package registry_test

import (
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/retry"
)

func regtestPlatform(architecture string) ocispec.Platform {
	return ocispec.Platform{OS: "linux", Architecture: architecture}
}

// kinds lists kinds of requests; an int repeats the one before it.
func kinds(list ...any) []regtest.Kind {
	var out []regtest.Kind
	for _, item := range list {
		switch v := item.(type) {
		case regtest.Kind:
			out = append(out, v)
		case int:
			last := out[len(out)-1]
			for range v - 1 {
				out = append(out, last)
			}
		}
	}
	return out
}

// requested are the kinds of the requests that a registry has seen, in order.
func requested(r *regtest.Registry) []regtest.Kind {
	var out []regtest.Kind
	for _, req := range r.Log() {
		out = append(out, req.Kind)
	}
	return out
}

// steady is the default schedule without chance: its waits are the shortest ones.
var steady = retry.Policy{Jitter: func() float64 { return 0 }}

// quick is a schedule for tests in real time whose waits do not matter.
var quick = retry.Policy{First: time.Millisecond, Max: time.Millisecond, Timeout: 10 * time.Second}
