package registry_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/retry"
)

// layerSize is the size of what each layer of the image under fault unpacks to, in bytes: several head starts.
const layerSize = 1 << 20

// fault is one row of docs/faults.md: something that goes wrong on a pull of an image with two layers behind an index, and
// what comes of it.
type fault struct {
	stage regtest.Kind
	what  string
	// inject prepares the registry.
	inject func(*regtest.Registry)
	// attempts and after are the count at the end, and the time it takes with waits at their shortest.
	attempts int
	after    time.Duration
	// fails is the class that the pull fails with; "" is a pull that succeeds.
	fails string
	// unlimited says that only the timeout ended it.
	unlimited bool
	// repaired says that over real sockets net/http may help itself: it sends a request again that met a dead connection.
	repaired bool
}

// spread is the distance between requests after a throttle.
const spread = 250 * time.Millisecond

// The classes that a pull fails with.
const (
	throttled = "throttled"
	transient = "transient"
	permanent = "permanent"
)

// faults is the table of faults and outcomes. Waits are 2.5, 5, 10 and then 15 s.
func faults() []fault {
	var table []fault
	for _, stage := range []regtest.Kind{regtest.KindToken, regtest.KindIndex, regtest.KindManifest, regtest.KindConfig, regtest.KindBlob} {
		table = append(table, statuses(stage)...)
		table = append(table, connections(stage)...)
	}
	table = append(table, documents(regtest.KindIndex)...)
	table = append(table, documents(regtest.KindManifest)...)
	table = append(table, bodies()...)
	return append(table, credentials()...)
}

// once gives the first requests of a stage the faults. The very first one of a pull, for the index, only fetches the
// challenge: it is left alone.
func once(stage regtest.Kind, list ...regtest.Fault) func(*regtest.Registry) {
	if stage == regtest.KindIndex {
		list = append([]regtest.Fault{regtest.Pass}, list...)
	}
	return func(r *regtest.Registry) { r.Script(regtest.Match{Kind: stage}, list...) }
}

func always(stage regtest.Kind, f regtest.Fault) func(*regtest.Registry) {
	return func(r *regtest.Registry) { r.Always(regtest.Match{Kind: stage}, f) }
}

func statuses(stage regtest.Kind) []fault {
	tooMany := regtest.ErrorBody("TOOMANYREQUESTS", "slow down")
	limited := regtest.ErrorBody("TOOMANYREQUESTS", "retry-after: 880.092µs, allowed: 44000/minute")
	// After a throttle the requests that follow keep their distance, each to the one before.
	later := map[regtest.Kind]time.Duration{
		regtest.KindToken: 4 * spread, regtest.KindIndex: 4 * spread, regtest.KindManifest: 3 * spread, regtest.KindConfig: 2 * spread, regtest.KindBlob: spread,
	}[stage]
	return []fault{
		{stage: stage, what: "503, 502, then well", inject: once(stage, regtest.Status(503), regtest.Status(502)), attempts: 3, after: 7500 * time.Millisecond},
		{stage: stage, what: "504 for ever", inject: always(stage, regtest.Status(504)), attempts: 43, after: 10 * time.Minute, fails: transient, unlimited: true},
		{stage: stage, what: "429 with Retry-After: 7, then well", inject: once(stage, regtest.Answer(429, "application/json", tooMany, "Retry-After", "7")), attempts: 2, after: 7*time.Second + later},
		{stage: stage, what: "429 with the wait in its text, then well", inject: once(stage, regtest.Answer(429, "application/json", limited)), attempts: 2, after: 2500*time.Millisecond + later},
		{stage: stage, what: "429 that does not say for how long, then well", inject: once(stage, regtest.Answer(429, "application/json", tooMany)), attempts: 2, after: 5*time.Second + later},
		{stage: stage, what: "429 that asks for longer than the timeout", inject: once(stage, regtest.Answer(429, "application/json", tooMany, "Retry-After", "3600")), attempts: 1, fails: throttled},
		{stage: stage, what: "403 twice, then well", inject: once(stage, regtest.Status(403), regtest.Status(403)), attempts: 3, after: 7500 * time.Millisecond},
		{stage: stage, what: "403 for ever", inject: always(stage, regtest.Status(403)), attempts: 3, after: 7500 * time.Millisecond, fails: permanent},
		{stage: stage, what: "404", inject: always(stage, regtest.Status(404)), attempts: 1, fails: permanent},
		{stage: stage, what: "501", inject: always(stage, regtest.Status(501)), attempts: 1, fails: permanent},
	}
}

func connections(stage regtest.Kind) []fault {
	list := []fault{
		{stage: stage, what: "hang before the header, then well", inject: once(stage, regtest.Hang()), attempts: 2, after: 17500 * time.Millisecond},
		{stage: stage, what: "connection dropped, then well", inject: once(stage, regtest.Drop()), attempts: 2, after: 2500 * time.Millisecond, repaired: true},
		{stage: stage, what: "redirects in a loop", inject: always(stage, regtest.RedirectLoop()), attempts: 3, after: 7500 * time.Millisecond, fails: permanent},
	}
	if stage == regtest.KindToken {
		return list
	}
	return append(list,
		fault{stage: stage, what: "connection reset after 100 bytes, then well", inject: once(stage, regtest.Reset(100)), attempts: 2, after: 2500 * time.Millisecond},
		fault{stage: stage, what: "stall after 100 bytes, then well", inject: once(stage, regtest.Stall(100)), attempts: 2, after: 32500 * time.Millisecond},
		fault{stage: stage, what: "stall after 100 bytes for ever", inject: always(stage, regtest.Stall(100)), attempts: 14, after: 587500 * time.Millisecond, fails: transient, unlimited: true},
		fault{stage: stage, what: "cut after 100 bytes, then well", inject: once(stage, regtest.Truncate(100)), attempts: 2, after: 2500 * time.Millisecond},
	)
}

// documents are faults in which something else comes where a manifest belongs.
func documents(stage regtest.Kind) []fault {
	schema1 := regtest.Answer(200, "application/vnd.docker.distribution.manifest.v1+prettyjws", `{"schemaVersion":1}`)
	return []fault{
		{stage: stage, what: "a web page with status 200, then well", inject: once(stage, regtest.HTML()), attempts: 2, after: 2500 * time.Millisecond},
		{stage: stage, what: "half a document with the right length, then well", inject: once(stage, regtest.Resize(-100)), attempts: 2, after: 2500 * time.Millisecond},
		{stage: stage, what: "a bit flipped, then well", inject: once(stage, regtest.Flip(50)), attempts: 2, after: 2500 * time.Millisecond},
		{stage: stage, what: "the same bit flipped for ever", inject: always(stage, regtest.Flip(50)), attempts: 3, after: 7500 * time.Millisecond, fails: permanent},
		{stage: stage, what: "a manifest of schema version 1", inject: always(stage, schema1), attempts: 1, fails: permanent},
	}
}

// bodies are faults of layers alone.
func bodies() []fault {
	const stage, half = regtest.KindBlob, layerSize / 2
	resets := []regtest.Fault{regtest.Reset(half), regtest.Reset(half / 2), regtest.Reset(half / 4)}
	return []fault{
		{stage: stage, what: "reset half way, thrice", inject: once(stage, resets...), attempts: 4},
		{stage: stage, what: "cut half way", inject: once(stage, regtest.Truncate(half)), attempts: 2},
		{stage: stage, what: "stall half way", inject: once(stage, regtest.Stall(half)), attempts: 2, after: 30 * time.Second},
		{stage: stage, what: "half a layer with a length that agrees", inject: once(stage, regtest.Resize(-half)), attempts: 2},
		{stage: stage, what: "bytes that follow the layer", inject: once(stage, regtest.Resize(100)), attempts: 1},
		{stage: stage, what: "a bit flipped, then well", inject: once(stage, regtest.Flip(half)), attempts: 2, after: 2500 * time.Millisecond},
		{stage: stage, what: "the same bit flipped for ever", inject: always(stage, regtest.Flip(half)), attempts: 3, after: 5 * time.Second, fails: permanent},
		{stage: stage, what: "slow drip", inject: once(stage, regtest.Drip(64<<10, 300*time.Millisecond)), attempts: 1, after: 9600 * time.Millisecond},
	}
}

// credentials are faults of tokens.
func credentials() []fault {
	expire := func(stage regtest.Kind) func(*regtest.Registry) {
		return func(r *regtest.Registry) { r.Script(regtest.Match{Kind: stage}, r.ExpireTokens()) }
	}
	return []fault{
		{stage: regtest.KindManifest, what: "the token has expired", inject: expire(regtest.KindManifest), attempts: 1},
		{stage: regtest.KindBlob, what: "the token has expired", inject: expire(regtest.KindBlob), attempts: 1},
		{stage: regtest.KindToken, what: "a web page in place of a token, then well", inject: once(regtest.KindToken, regtest.HTML()), attempts: 2, after: 2500 * time.Millisecond},
	}
}

// outcome is what came of a fault.
type outcome struct {
	attempts int
	after    time.Duration
	fails    string
}

// outcome is what the table says.
func (f fault) outcome() outcome { return outcome{f.attempts, f.after, f.fails} }

// suffer pulls the image through the fault.
func (f fault) suffer(ctx context.Context, r *regtest.Registry, c *registry.Client, domain string) outcome {
	f.inject(r)
	start := time.Now()
	pull, err := c.Pull(ctx, reference.MustParse(domain+"/some/app:1"), amd64)
	for i := 0; err == nil && i < len(pull.Image.Layers()); i++ {
		err = consume(ctx, pull.Image, i)
	}
	out := outcome{after: time.Since(start)}
	if err == nil {
		out.attempts = pull.Attempts()
		return out
	}
	out.fails = err.Error() // unless it is as it must be
	if end, ok := errors.AsType[*retry.Error](err); ok {
		out.attempts, out.fails = end.Attempts, end.Class.String()
	}
	return out
}

func consume(ctx context.Context, img image.Image, i int) error {
	rc, err := img.Layer(ctx, i)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, rc)
	return errors.Join(err, rc.Close())
}

// faulty is a registry that asks for anonymous tokens and holds the image.
func faulty() *regtest.Registry {
	r := regtest.New(regtest.Options{Auth: &regtest.Auth{Public: []string{"*"}}})
	img := regtest.RandomImage(7, 2, layerSize)
	r.Add("some/app:1", regtest.NewIndex(img, regtest.Attestation(img)))
	return r
}

func TestFaultsHaveTheOutcomesOfTheTable(t *testing.T) {
	t.Parallel()
	for _, f := range faults() {
		t.Run(string(f.stage)+" "+f.what, func(t *testing.T) {
			t.Parallel()
			spool := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				r := faulty()
				c := client(t, r, registry.Options{SpoolDir: spool, Policy: steady})
				require.Equal(t, f.outcome(), f.suffer(t.Context(), r, c, "registry.example"))
			})
		})
	}
}
