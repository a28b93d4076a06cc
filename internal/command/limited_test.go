package command_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/command"
)

// hangs is a runner of programs that read some of their input and never end.
type hangs struct{ reads int64 }

func (h hangs) Run(ctx context.Context, c command.Command) (command.Output, error) {
	if c.Stdin != nil {
		r, w := io.Pipe()
		fed := make(chan error, 1)
		go func() { fed <- c.Stdin(ctx, w) }()
		_, _ = io.CopyN(io.Discard, r, h.reads)
		<-ctx.Done()
		_ = r.Close()
		<-fed
	}
	<-ctx.Done()
	return command.Output{}, context.Cause(ctx)
}

func TestProgramsThatHangAreEnded(t *testing.T) {
	t.Parallel()
	limits := command.Limits{Call: time.Minute, Stall: 2 * time.Minute, Quiet: 20 * time.Minute}
	hundred := func(_ context.Context, w io.Writer) error {
		for range 10 {
			time.Sleep(time.Minute) // a slow source is none of the program's business
			if _, err := w.Write(make([]byte, 10)); err != nil {
				return err
			}
		}
		return nil
	}
	for name, test := range map[string]struct {
		stdin func(context.Context, io.Writer) error
		reads int64
		want  string
		took  time.Duration
	}{
		"a question":             {nil, 0, "ctr images did not end within 1m0s", time.Minute},
		"while it is fed":        {hundred, 50, "ctr images took none of its input within 2m0s", 8 * time.Minute},
		"when it has been fed":   {hundred, 100, "ctr images did not end behind its input within 20m0s", 30 * time.Minute},
		"before it takes a byte": {hundred, 0, "ctr images took none of its input within 2m0s", 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				runner := command.Limited{Runner: hangs{test.reads}, Limits: limits}
				_, err := runner.Run(t.Context(), command.Command{Argv: []string{"ctr", "images"}, Stdin: test.stdin})
				hung, ok := errors.AsType[*command.Hung](err)
				require.True(t, ok, "%v", err)
				require.EqualError(t, hung, test.want)
				require.Equal(t, test.took, time.Since(began))
			})
		})
	}
}

func TestNoLimitIsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1000*time.Hour)
		defer cancel()
		_, err := command.Limited{Runner: hangs{}}.Run(ctx, command.Command{Argv: []string{"ctr"}})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
