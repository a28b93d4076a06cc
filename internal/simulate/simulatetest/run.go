// Package simulatetest runs a setting of package simulate for real, with the registry client, against the test registry: what
// a simulation is held to. In a testing/synctest bubble it takes no time; over sockets it takes as long as it says.
package simulatetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/retry"
	"github.com/pullonce/pullonce/internal/simulate"
)

// Field is a setting with everything that it takes to run it.
type Field struct {
	Setting  simulate.Setting
	Registry *regtest.Registry
	names    []string
}

// linux is the platform of the images.
var linux = platform.Platform{OS: "linux", Architecture: "amd64"}

// New is a registry with the setting's limit, latency and images.
func New(s simulate.Setting) *Field {
	throttle := &regtest.Throttle{Requests: s.Throttle.Requests, Window: s.Throttle.Window, Burst: s.Throttle.Burst}
	if s.Throttle.RetryAfter {
		throttle.Advice = regtest.AdviceSeconds
	}
	if s.Throttle.CountBlobs {
		throttle.Kinds = []regtest.Kind{regtest.KindIndex, regtest.KindManifest, regtest.KindConfig, regtest.KindBlob}
	}
	f := &Field{Setting: s, Registry: regtest.New(regtest.Options{Throttle: throttle})}
	f.Registry.Always(regtest.Match{}, regtest.Delay(s.Latency))
	for i := range s.Images {
		name := fmt.Sprintf("some/app%d:1", i)
		f.Registry.Add(name, regtest.NewIndex(regtest.RandomImage(uint64(i), s.Image.Layers, s.Image.Size/int64(s.Image.Layers))))
		f.names = append(f.names, name)
	}
	return f
}

// Run runs all lanes at the places that the seed gives them, and says what the registry saw. host is how references name it,
// and transport how the lanes behind one IP, by its number, reach it.
func (f *Field) Run(ctx context.Context, strategy simulate.Strategy, seed uint64, host string, transport func(ip int) http.RoundTripper) simulate.Outcome {
	places := simulate.Places(f.Setting, seed)
	failed := make([]bool, len(places))
	var group sync.WaitGroup
	for i, place := range places {
		group.Go(func() {
			l := lane{f: f, host: host, transport: transport(place.IP), quick: strategy == simulate.Pull}
			failed[i] = l.run(ctx, place.Start) != nil
		})
	}
	group.Wait()
	return f.outcome(failed)
}

// outcome counts.
func (f *Field) outcome(failed []bool) simulate.Outcome {
	var out simulate.Outcome
	for _, yes := range failed {
		if yes {
			out.Failed++
		}
	}
	for _, request := range f.Registry.Log() {
		out.Requests++
		if request.Status == http.StatusTooManyRequests {
			out.Throttled++
		}
	}
	return out
}

// lane is one lane that runs for real.
type lane struct {
	f         *Field
	host      string
	transport http.RoundTripper
	quick     bool
}

func (l lane) run(ctx context.Context, start time.Duration) error {
	if err := retry.Sleep(ctx, start); err != nil {
		return err
	}
	if l.quick {
		return l.quickly(ctx)
	}
	client := l.client(retry.Policy{Timeout: l.f.Setting.LaneTimeout})
	for _, name := range l.f.names {
		if err := l.pull(ctx, client, name); err != nil {
			return err
		}
	}
	return nil
}

// once is a schedule that lets no second try follow, and gives a slow machine time for the first.
var once = retry.Policy{Timeout: time.Minute, First: time.Hour, Max: time.Hour}

// quickly tries each image three times, with a second and then two between, each time as a program of its own would.
func (l lane) quickly(ctx context.Context) error {
	for _, name := range l.f.names {
		err := errors.New("not tried")
		for try := 0; try < 3 && err != nil; try++ {
			if try > 0 {
				if err := retry.Sleep(ctx, time.Second<<(try-1)); err != nil {
					return err
				}
			}
			err = l.pull(ctx, l.client(once), name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l lane) client(p retry.Policy) *registry.Client {
	return registry.New(registry.Options{Transport: l.transport, Policy: p})
}

// pull pulls one image to the last byte.
func (l lane) pull(ctx context.Context, client *registry.Client, name string) error {
	ref, err := reference.Parse(l.host + "/" + name)
	if err != nil {
		return err
	}
	pulled, err := client.Pull(ctx, ref, linux)
	if err != nil {
		return err
	}
	return image.Encode(ctx, io.Discard, pulled.Image)
}
