package kind

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/oneline"
)

const (
	// parting is how long a program may take to end once its input was spoilt.
	parting = time.Second
	// killed is the exit code of a program that got SIGKILL.
	killed = 137
	// poll is how often an exec that has said all is asked whether it has ended.
	poll = 20 * time.Millisecond
)

// runner runs programs in a node, as docker exec does.
type runner struct {
	api  *client.Client
	node node
	// stall is how long the node may take no byte of input; settle, how long a program may take to end that has closed
	// its outputs; call, how long the engine may take to answer.
	stall, settle, call time.Duration
}

var _ command.Runner = (*runner)(nil)

// Run implements command.Runner.
func (r *runner) Run(ctx context.Context, c command.Command) (command.Output, error) {
	id, attached, err := r.start(ctx, c)
	if err != nil {
		return command.Output{}, err
	}
	defer attached.Close()
	out, broken, err := r.talk(ctx, attached, c)
	if err != nil {
		return out, err
	}
	code, err := r.exitCode(ctx, id)
	if err == nil && code == 0 {
		return out, nil
	}
	gone := r.gone(ctx)
	switch {
	case gone != nil:
		return out, gone
	case errors.Is(err, errBroken) && broken != nil:
		return out, fmt.Errorf("%w: %s", err, oneline.Of(broken.Error()))
	case errors.Is(err, errBroken):
		return out, err
	case err != nil:
		return out, r.refused(ctx, err)
	case code == killed:
		return out, fmt.Errorf("%s was killed there: the node went away, or ran out of memory", c.Argv[0])
	case strings.Contains(out.Stdout+out.Stderr, "executable file not found"):
		return out, fmt.Errorf("%w: %s", command.ErrNotFound, c.Argv[0])
	default:
		return out, &command.Error{Command: c, Output: out, Code: code}
	}
}

// start starts a program in the node and connects to it. The connection outlives the time that the engine has for both.
func (r *runner) start(ctx context.Context, c command.Command) (id string, attached client.ExecAttachResult, err error) {
	err = briefly(ctx, r.call, func(ctx context.Context) error {
		exec, err := r.api.ExecCreate(ctx, r.node.id, client.ExecCreateOptions{
			AttachStdin: c.Stdin != nil, AttachStdout: true, AttachStderr: true, Cmd: c.Argv, Env: c.Env,
		})
		if err != nil {
			return err
		}
		id = exec.ID
		attached, err = r.api.ExecAttach(ctx, id, client.ExecAttachOptions{})
		return err
	})
	if err != nil {
		err = r.refused(ctx, err)
	}
	return id, attached, err
}

// briefly has call ask the engine, within a time.
func briefly(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	asking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := call(asking)
	if err != nil && asking.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("the engine did not answer within %s: see its log", limit)
	}
	return err
}

// config is the configuration of the node's containerd.
func config(ctx context.Context, node command.Runner) string {
	out, err := node.Run(ctx, command.Command{Argv: []string{"containerd", "config", "dump"}, Asks: true})
	if err != nil {
		return ""
	}
	return out.Stdout
}

// talk feeds the program and listens to it until it has ended, or the connection is broken: by the program, too, where
// it ends with input left.
func (r *runner) talk(parent context.Context, attached client.ExecAttachResult, c command.Command) (out command.Output, broken, err error) {
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	stop := context.AfterFunc(ctx, func() { _ = attached.Conn.SetDeadline(time.Now().Add(parting)) })
	defer stop()
	var feeding errgroup.Group
	if c.Stdin != nil {
		feeding.Go(func() error {
			r.feed(ctx, attached, c, fail)
			return nil
		})
	}
	var stdout, stderr limited
	_, broken = stdcopy.StdCopy(&stdout, &stderr, attached.Reader)
	cause := context.Cause(ctx)
	fail(nil)
	_ = attached.Conn.SetWriteDeadline(time.Now()) // what the program did not read is of no use any more
	_ = feeding.Wait()                             // its errors are in cause
	out = command.Output{Stdout: stdout.String(), Stderr: stderr.String()}
	switch {
	case cause != nil:
		return out, nil, cause
	case stdout.over:
		return out, nil, &command.Error{Command: c, Output: out, Err: command.ErrOutput}
	default:
		return out, broken, nil
	}
}

// feed writes the program's input and ends it. There is no way to end the program itself: so input that breaks, which is a
// tar, is spoilt before it is ended, because one that ends between two members passes for whole.
func (r *runner) feed(ctx context.Context, attached client.ExecAttachResult, c command.Command, fail func(error)) {
	w := &patient{conn: attached.Conn, ctx: ctx, stall: r.stall}
	err := c.Stdin(ctx, w)
	switch {
	case err == nil:
	case errors.Is(w.err, os.ErrDeadlineExceeded) && ctx.Err() == nil:
		fail(fmt.Errorf("it took no data for %s: it hangs, or its disk does", r.stall))
	case w.err != nil: // the program reads no more, and will say why
	default:
		fail(err)
		_ = attached.Conn.SetWriteDeadline(time.Now().Add(parting))
		_, _ = attached.Conn.Write(spoil(w.n))
	}
	_ = attached.CloseWrite()
}

// spoil is what makes a tar of n bytes one that no reader takes for whole. It goes past any padding, is no header, and
// leaves the tar with a broken block at its end, so that it is no rest of a member either.
func spoil(n int64) []byte {
	const block = 512
	bad := bytes.Repeat([]byte{0xff}, 2*block)
	if n%block == 0 {
		bad = append(bad, 0xff)
	}
	return bad
}

// patient is a connection that must take something within a time. It remembers if it did not.
type patient struct {
	conn  net.Conn
	ctx   context.Context
	stall time.Duration
	n     int64 // bytes taken
	err   error
}

// Write implements io.Writer.
func (p *patient) Write(data []byte) (int, error) {
	_ = p.conn.SetWriteDeadline(time.Now().Add(p.stall))
	if p.ctx.Err() != nil { // whoever ended it has set, or will set, another deadline
		return 0, context.Cause(p.ctx)
	}
	n, err := p.conn.Write(data)
	p.n += int64(n)
	if err != nil {
		p.err = err
	}
	return n, err
}

var _ io.Writer = (*patient)(nil)

// errBroken says that the connection to a program ended and the program did not.
var errBroken = errors.New("the connection to the node broke")

// exitCode waits for an exec that has said all it has to say, and so must end soon.
func (r *runner) exitCode(ctx context.Context, id string) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.settle, errBroken)
	defer cancel()
	for {
		state, err := r.api.ExecInspect(ctx, id, client.ExecInspectOptions{})
		if err == nil && !state.Running {
			return state.ExitCode, nil
		}
		if err != nil && ctx.Err() == nil {
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(poll):
		}
	}
}

// gone says that the node went away while a program ran in it.
func (r *runner) gone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.call)
	defer cancel()
	found, err := r.api.ContainerInspect(ctx, r.node.id, client.ContainerInspectOptions{})
	switch {
	case cerrdefs.IsNotFound(err):
		return errors.New("it went away: its container was removed")
	case err == nil && found.Container.State != nil && !found.Container.State.Running:
		return fmt.Errorf("it went away: its container is %s", oneline.Of(string(found.Container.State.Status)))
	default:
		return nil
	}
}

// refused is why the engine runs nothing in the node.
func (r *runner) refused(ctx context.Context, err error) error {
	said := oneline.Of(strings.TrimPrefix(err.Error(), "Error response from daemon: "))
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case cerrdefs.IsNotFound(err), cerrdefs.IsConflict(err):
		return fmt.Errorf("it is gone: %s", said)
	default:
		return fmt.Errorf("running a program in it: %s", said)
	}
}

// limited keeps the first command.MaxOutput bytes.
type limited struct {
	bytes.Buffer
	over bool
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	room := command.MaxOutput - l.Len()
	l.over = l.over || len(p) > room
	_, _ = l.Buffer.Write(p[:min(len(p), room)])
	return len(p), nil
}
