//go:build linux

package match

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/pullonce/pullonce/bench/internal/contender"
	"github.com/pullonce/pullonce/bench/internal/measure"
	"github.com/pullonce/pullonce/bench/internal/result"
)

// proc is where the kernel tells of processes.
const proc = "/proc"

// ask asks one question: all contenders do the job in turn, round after round.
func (h *hall) ask(ctx context.Context, mode contender.Mode, s *contender.Scene) (result.Case, error) {
	c := result.Case{Mode: string(mode), Image: s.Name, Target: s.Target.Name()}
	var playing []contender.Contender
	for _, who := range contender.Of(mode, s.Target.Name()) {
		if !h.options.plays(who.Name) {
			continue
		}
		playing = append(playing, who)
		c.Series = append(c.Series, result.Series{Contender: who.Name, Problem: problem(prepare(ctx, s, who))})
	}
	if h.options.Kept {
		if err := s.Store.Keep(ctx); err != nil {
			return c, err
		}
	}
	for round := 1; round <= h.options.Rounds; round++ {
		for i, who := range playing {
			if c.Series[i].Problem == "" {
				h.turn(ctx, mode, s, who, round, &c.Series[i])
			}
			if ctx.Err() != nil {
				return c, ctx.Err()
			}
		}
	}
	return c, sweep(ctx, s)
}

// turn is one contender's turn in a round.
func (h *hall) turn(ctx context.Context, mode contender.Mode, s *contender.Scene, who contender.Contender, round int, series *result.Series) {
	sample, err := h.job(ctx, mode, s, who, round)
	if ctx.Err() != nil {
		return // we were told to end, and it did nothing wrong
	}
	if err != nil {
		series.Problem = fmt.Sprintf("round %d: %v", round, err)
		fmt.Fprintf(h.options.Progress, "  %d  %-20s %v\n", round, who.Name, err)
		return
	}
	series.Samples = append(series.Samples, sample)
	fmt.Fprintf(h.options.Progress, "  %d  %-20s %6.2f s\n", round, who.Name, sample.Wall.Seconds())
}

// prepare makes what is there before a contender's jobs.
func prepare(ctx context.Context, s *contender.Scene, who contender.Contender) error {
	if err := errors.Join(s.Reset(), sweep(ctx, s)); err != nil || who.Prepare == nil {
		return err
	}
	if err := who.Prepare(ctx, s); err != nil {
		return fmt.Errorf("preparing: %w", err)
	}
	return nil
}

// problem is an error in words.
func problem(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// sweep removes all images from the target and from the engine that it is in.
func sweep(ctx context.Context, s *contender.Scene) error {
	return errors.Join(s.Target.Empty(ctx), contender.Engine("", s.Engine).Empty(ctx))
}

// job is a job of a contender, from a fresh runner to the proof that it is done.
func (h *hall) job(ctx context.Context, mode contender.Mode, s *contender.Scene, who contender.Contender, round int) (result.Sample, error) {
	if err := s.Reset(); err != nil {
		return result.Sample{}, err
	}
	if mode != contender.Present {
		if err := sweep(ctx, s); err != nil {
			return result.Sample{}, err
		}
	}
	syscall.Sync() // what others wrote is not for this one to wait for
	sample, stdout, err := h.timed(ctx, s, who.Commands(s, round))
	if err != nil {
		return result.Sample{}, err
	}
	if err := who.Verify(ctx, s, contender.Outcome{Round: round, Stdout: stdout}); err != nil {
		return result.Sample{}, fmt.Errorf("the job is not done: %w", err)
	}
	sample.Round = round
	return sample, nil
}

// timed runs the commands, and says what they took and what was asked of others meanwhile.
func (h *hall) timed(ctx context.Context, s *contender.Scene, commands []measure.Command) (result.Sample, string, error) {
	if err := measure.ResetPeak(proc, s.Target.Processes()...); err != nil {
		return result.Sample{}, "", err
	}
	before, err := h.read(ctx, s)
	if err != nil {
		return result.Sample{}, "", err
	}
	var sample result.Sample
	var stdout string
	for _, c := range commands {
		var u measure.Usage
		if u, stdout, err = s.Runner.Run(ctx, c); err != nil {
			return result.Sample{}, "", err
		}
		sample.Usage = sample.Usage.Add(u)
		sample.Steps = append(sample.Steps, result.Step{Command: c.String(), Usage: u})
	}
	after, err := h.read(ctx, s)
	if err != nil {
		return result.Sample{}, "", err
	}
	sample.DaemonCPU = after.cpu - before.cpu
	sample.StoreCPU = max(0, after.ours-before.ours-sample.DaemonCPU-sample.CPU())
	sample.OtherCPU = max(0, after.busy-before.busy-(after.ours-before.ours))
	sample.Store, sample.Registry = after.store.Sub(before.store), after.registry.Sub(before.registry)
	sample.DaemonPeak, err = measure.Peak(proc, s.Target.Processes()...)
	return sample, stdout, err
}
