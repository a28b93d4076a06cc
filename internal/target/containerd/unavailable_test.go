package containerd_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/command/commandtest"
	"github.com/pullonce/pullonce/internal/image/imagetest"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/containerd"
)

// absent is a program that is not on this host.
func absent([]string, []byte) (command.Output, error) { return command.Output{}, command.ErrNotFound }

func TestUnavailable(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		given func(d *daemon)
		want  string
	}{
		"no socket": {
			func(d *daemon) { d.socket = filepath.Join(d.t.TempDir(), "c.sock") },
			"no containerd daemon: SOCKET does not exist: start containerd, or set CONTAINERD_ADDRESS to where it listens",
		},
		"no client": {
			func(d *daemon) {
				for _, program := range []string{"ctr", "k3s", "/var/lib/rancher/rke2/bin/ctr", "nerdctl"} {
					d.runner.On(program, absent)
				}
				d.on("ctr", "plugins ls --detailed", absent)
			},
			"containerd listens at SOCKET, but there is neither ctr nor nerdctl to talk to it: put one of them on PATH",
		},
		"a client that fails": {
			func(d *daemon) {
				d.on("ctr", "plugins ls --detailed", commandtest.Fails(1, "ctr: rpc error: code = Unimplemented\n"))
			},
			"containerd at SOCKET: ctr plugins ls: rpc error: code = Unimplemented",
		},
		"no snapshotter": {
			func(d *daemon) { d.on("ctr", "plugins ls --detailed", commandtest.Says("")) },
			"containerd at SOCKET: no snapshotter of this containerd works: see ctr plugins ls",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, true)
			test.given(d)
			_, err := d.target().Platform(t.Context())
			require.ErrorIs(t, err, target.ErrUnavailable)
			require.EqualError(t, err, "target unavailable: "+strings.ReplaceAll(test.want, "SOCKET", d.socket))
			_, err = d.target().Load(t.Context(), imagetest.New(t, imagetest.Options{}))
			require.ErrorIs(t, err, target.ErrUnavailable)
		})
	}
}

// hanging runs nothing, and never ends before its context.
type hanging struct{}

func (hanging) Run(ctx context.Context, _ command.Command) (command.Output, error) {
	<-ctx.Done()
	return command.Output{}, context.Cause(ctx)
}

func TestContainerdThatHangs(t *testing.T) {
	t.Parallel()
	path := listen(t)
	c := containerd.New(containerd.Options{Address: path, Runner: hanging{}, Timeout: 10 * time.Millisecond})
	_, err := c.Platform(t.Context())
	require.EqualError(t, err, "target unavailable: containerd at "+path+" did not answer within 10ms: see its log")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Platform(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, target.ErrUnavailable)
}

// later hangs but for the first questions.
type later struct{ command.Runner }

func (l later) Run(ctx context.Context, c command.Command) (command.Output, error) {
	if line := c.String(); strings.Contains(line, "plugins ls") || strings.HasSuffix(line, "--help") {
		return l.Runner.Run(ctx, c)
	}
	return hanging{}.Run(ctx, c)
}

// A containerd that hangs in the middle costs the time for a call and no more.
func TestContainerdThatHangsLater(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, true)
	limits := command.Limits{Call: 10 * time.Millisecond}
	c := containerd.New(containerd.Options{Address: d.socket, Runner: later{d.runner}, Limits: limits})
	_, err := c.Load(t.Context(), imagetest.New(t, imagetest.Options{}))
	require.EqualError(t, err, "ctr images check did not end within 10ms: containerd hangs, or its disk does: see its log")
}

func TestAddressComesFromTheEnvironment(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, true)
	c := containerd.New(containerd.Options{Runner: d.runner, Files: fstest.MapFS{}, Getenv: func(name string) string {
		return map[string]string{"CONTAINERD_ADDRESS": d.socket}[name]
	}})
	_, err := c.Platform(t.Context())
	require.NoError(t, err)
}

// However many loads want to know who a containerd is: its questions are asked once, and at the same time. What an import has to
// know is asked once, too, and not of one that has all images.
func TestQuestionsAreAskedOnceAndTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon(t, true)
		var together sync.WaitGroup
		together.Add(2)
		meet := func() {
			together.Done()
			together.Wait()
		}
		d.on("ctr", "plugins ls --detailed", func([]string, []byte) (command.Output, error) {
			meet()
			return command.Output{Stdout: plugins16}, nil
		})
		c := d.namespace().Client.(*containerd.Ctr)
		c.Config = func(context.Context) string {
			meet()
			return ""
		}
		var asking sync.WaitGroup
		for range 3 {
			asking.Go(func() {
				_, err := c.About(t.Context())
				assert.NoError(t, err)
			})
		}
		asking.Wait()
		require.Len(t, d.runner.Calls(), 1)
		for range 3 {
			asking.Go(func() { c.Prepare(t.Context()) })
		}
		asking.Wait()
		require.Len(t, d.runner.Calls(), 1)
	})
}
