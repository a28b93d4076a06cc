package lane_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/pullonce/pullonce/internal/cachekey"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/lane"
	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/target"
)

// ready is a store and a target that have everything at hand.
type ready struct {
	store.Store
	images map[string]image.Image
}

func (r ready) Open(_ context.Context, key string) (image.Image, error) { return r.images[key], nil }

func (ready) Platform(context.Context) (platform.Platform, error) { return linux, nil }

func (ready) Load(context.Context, image.Image) (target.Result, error) {
	return target.Result{Outcome: target.Present}, nil
}

// BenchmarkRun is what a lane of 100 images costs besides what store and target do.
func BenchmarkRun(b *testing.B) {
	everything := ready{images: map[string]image.Image{}}
	o := lane.Options{Store: everything, Targets: []lane.Target{{Name: "ready", Target: everything}}}
	for i := range 100 {
		ref := fmt.Sprintf("image:%d", i)
		o.Pins = append(o.Pins, pin.Pin{Reference: reference.MustParse(ref)})
		key := lane.Items(o.Pins[i:], linux, "", cachekey.V1)[0].Key
		everything.images[key] = imagetest.New(b, imagetest.Options{Reference: ref})
	}
	b.ReportAllocs()
	for b.Loop() {
		if got := lane.Run(b.Context(), o); got.Result != report.Success {
			b.Fatal(got.Problems)
		}
	}
}
