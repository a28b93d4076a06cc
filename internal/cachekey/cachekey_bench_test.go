package cachekey_test

import (
	"testing"

	"github.com/pullonce/pullonce/internal/cachekey"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
)

func BenchmarkKey(b *testing.B) {
	ref := reference.MustParse("quay.io/prometheus/node-exporter:v1.9.1@sha256:d00a542e409ee618a4edc67da14dd48c5da66726bbd5537ab2af9c1dfc442c8a")
	on := platform.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}
	b.ReportAllocs()
	for b.Loop() {
		if cachekey.V1.Key(ref, on, "salt") == "" {
			b.Fatal("no key")
		}
	}
}
