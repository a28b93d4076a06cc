package plan_test

import (
	"fmt"
	"testing"

	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/plan"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
)

// BenchmarkMake plans 10,000 pins for one platform. Half of them share their names with another registry's.
func BenchmarkMake(b *testing.B) {
	pins := make([]pin.Pin, 10_000)
	for i := range pins {
		pins[i].Reference = reference.MustParse(fmt.Sprintf("registry-%d.example/team/service-%d:1", i%2, i/2))
	}
	on := plan.Options{Platforms: []platform.Platform{{OS: "linux", Architecture: "amd64"}}}
	b.ReportAllocs()
	for b.Loop() {
		if plan.Make(pins, on).Count() != len(pins) {
			b.Fatal("not all are planned")
		}
	}
}
