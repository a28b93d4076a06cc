// Package demo owns the main job on embedded parts: a registry that throttles by IP and a store, both in the process,
// and a wide matrix of lanes that runs twice, first each lane pulling for itself, then primed. What it counts is what
// the registry saw. It does not know real registries or daemons.
package demo

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/pullonce/pullonce/internal/lane"
	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/plan"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/prime"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/retry"
	"github.com/pullonce/pullonce/internal/store/dir"
)

// DefaultLanes is the width of the matrix.
const DefaultLanes = 24

// throttle is the embedded registry's: the shape of Docker Hub's, a count of manifest requests for each IP, at a scale
// that a matrix of this width meets within seconds. All lanes come from one IP, as jobs behind one NAT do.
var throttle = regtest.Throttle{Requests: 12, Window: time.Second, Burst: 60, Advice: regtest.AdviceSeconds}

// Options say how the demo runs.
type Options struct {
	// Lanes is the width of the matrix; 0 is DefaultLanes.
	Lanes int
	// Dir is an empty folder for the store and for layers on their way.
	Dir string
	// Serve makes a registry reachable and says how: the host that references name, the transport to it, and how to end
	// it. Nil serves on a loopback port.
	Serve func(*regtest.Registry) (host string, transport http.RoundTripper, end func() error, err error)
	// Say is told in a line what happens next; nil says nothing.
	Say func(line string)
}

// Half is one of the two runs of the matrix, in figures.
type Half struct {
	Name string
	// Lanes is the width, Failed how many of the lanes went without an image.
	Lanes, Failed int
	// Requests are all that the registry saw, Throttled those it shed with a 429, ByLanes those that lanes made.
	Requests, Throttled, ByLanes int
	Elapsed                      time.Duration
}

// Result is both halves.
type Result struct {
	Images        int
	Alone, Primed Half
}

// Run runs both halves. An error means that the demo itself could not run; what the lanes came to is in the result.
func Run(ctx context.Context, o Options) (Result, error) {
	if o.Lanes == 0 {
		o.Lanes = DefaultLanes
	}
	if o.Serve == nil {
		o.Serve = serveOnLoopback
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	o.Say(fmt.Sprintf("%d lanes, each pulling %d images for itself, three quick tries each …", o.Lanes, len(images)))
	alone, err := o.half(ctx, alone)
	if err != nil {
		return Result{}, fmt.Errorf("running the lanes by themselves: %w", err)
	}
	o.Say(fmt.Sprintf("%d lanes after one prime …", o.Lanes))
	primed, err := o.half(ctx, primed)
	if err != nil {
		return Result{}, fmt.Errorf("running the primed lanes: %w", err)
	}
	return Result{Images: len(images), Alone: alone, Primed: primed}, nil
}

// field is what one half runs on: a registry of its own, so that no half inherits the other's quota.
type field struct {
	Options
	registry  *regtest.Registry
	transport http.RoundTripper
	pins      []pin.Pin
}

// half runs one half on a fresh registry and counts.
func (o Options) half(ctx context.Context, run func(context.Context, *field) (Half, error)) (half Half, err error) {
	f := &field{Options: o, registry: regtest.New(regtest.Options{Throttle: &throttle})}
	host, transport, end, err := o.Serve(f.registry)
	if err != nil {
		return Half{}, err
	}
	defer func() {
		if ended := end(); err == nil {
			err = ended
		}
	}()
	f.transport = transport
	if f.pins, err = publish(f.registry, host); err != nil {
		return Half{}, err
	}
	started := time.Now()
	if half, err = run(ctx, f); err != nil {
		return Half{}, err
	}
	half.Elapsed, half.Lanes = time.Since(started), o.Lanes
	for _, request := range f.registry.Log() {
		half.Requests++
		if request.Status == http.StatusTooManyRequests {
			half.Throttled++
		}
	}
	return half, nil
}

// alone is the half in which each lane pulls for itself.
func alone(ctx context.Context, f *field) (Half, error) {
	half := Half{Name: "each lane pulls"}
	half.Failed = f.eachLane(func() bool { return f.pullAll(ctx) })
	half.ByLanes = len(f.registry.Log())
	return half, nil
}

// singleTry ends a pull at the first 429, which asks for a second at least: trying again is the lane's own business here.
const singleTry = 900 * time.Millisecond

// tries and pause are what people write by hand: three tries, a second and then two between them.
const (
	tries = 3
	pause = time.Second
)

// pullAll is a lane that pulls each image for itself and says whether it got them all.
func (f *field) pullAll(ctx context.Context) bool {
	client := f.client(singleTry, "")
	defer client.Close()
	for _, p := range f.pins {
		if !quickly(ctx, func() error { return f.pull(ctx, client, p) }) {
			return false
		}
	}
	return true
}

func quickly(ctx context.Context, pull func() error) bool {
	for try := range tries {
		if pull() == nil {
			return true
		}
		if try == tries-1 {
			break
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause << try):
		}
	}
	return false
}

// pull pulls one image to the last byte.
func (f *field) pull(ctx context.Context, client *registry.Client, p pin.Pin) error {
	pulled, err := client.Pull(ctx, p.Reference, platform.Host())
	if err != nil {
		return err
	}
	_, err = sink{}.Load(ctx, pulled.Image)
	return err
}

// primed is the half in which one prime pulls and the lanes load.
func primed(ctx context.Context, f *field) (Half, error) {
	half := Half{Name: "pullonce"}
	entries, err := dir.New(filepath.Join(f.Dir, "store"))
	if err != nil {
		return Half{}, err
	}
	client := f.client(time.Minute, f.Dir)
	defer client.Close()
	done := prime.Run(ctx, prime.Options{Items: plan.Make(f.pins, plan.Options{}).Items, Store: entries, Registry: client})
	if done.Result != report.Success {
		return Half{}, fmt.Errorf("priming: %s", problems(done))
	}
	before := len(f.registry.Log())
	half.Failed = f.eachLane(func() bool {
		fallback := f.client(time.Minute, "")
		defer fallback.Close()
		loaded := lane.Run(ctx, lane.Options{
			Pins: f.pins, Store: entries, Registry: fallback, Targets: []lane.Target{{Name: "sink", Target: sink{}}},
		})
		return loaded.Result == report.Success
	})
	half.ByLanes = len(f.registry.Log()) - before
	return half, nil
}

func problems(r report.Report) string {
	if len(r.Problems) == 0 {
		return string(r.Result)
	}
	return r.Problems[0].String()
}

// client is what a job of its own would have. With a spool, a layer that several images share is fetched once.
func (f *field) client(timeout time.Duration, spool string) *registry.Client {
	return registry.New(registry.Options{
		Transport: f.transport, Policy: retry.Policy{Timeout: timeout}, SpoolDir: spool, UserAgent: "pullonce-demo",
	})
}

// eachLane runs every lane at the same moment and counts those that failed.
func (f *field) eachLane(run func() bool) (failed int) {
	results := make([]bool, f.Lanes)
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() { results[i] = run() })
	}
	group.Wait()
	for _, ok := range results {
		if !ok {
			failed++
		}
	}
	return failed
}

// serveOnLoopback serves over a real socket.
func serveOnLoopback(reg *regtest.Registry) (string, http.RoundTripper, func() error, error) {
	server, err := reg.Start(regtest.Listen{Addr: "127.0.0.1:0"})
	if err != nil {
		return "", nil, nil, fmt.Errorf("starting the embedded registry: %w", err)
	}
	return server.Host, registry.NewTransport(), server.Close, nil
}
