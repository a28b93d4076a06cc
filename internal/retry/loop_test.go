package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/retry"
)

// fault is an error with a class, as a client makes it.
type fault struct {
	class retry.Class
	after time.Duration
}

func (f fault) Error() string             { return "registry.example:\n" + f.class.String() }
func (f fault) RetryClass() retry.Class   { return f.class }
func (f fault) RetryAfter() time.Duration { return f.after }

// whole is the default schedule with every wait at its full length.
func whole() retry.Policy { return retry.Policy{Jitter: func() float64 { return 1 }} }

// always fails with err.
func always(err error) func(context.Context, int) error {
	return func(context.Context, int) error { return err }
}

// waits runs Do in fake time, and gives what was waited between the tries.
func waits(t *testing.T, p retry.Policy, op func(ctx context.Context, attempt int) error) (waits []time.Duration, attempts int, err error) {
	t.Helper()
	var ended time.Time
	attempts, err = retry.Do(t.Context(), p, func(ctx context.Context, attempt int) error {
		if attempt > 1 {
			waits = append(waits, time.Since(ended))
		}
		require.Equal(t, len(waits)+1, attempt)
		err := op(ctx, attempt)
		ended = time.Now()
		return err
	})
	return waits, attempts, err
}

func TestWaitsByClass(t *testing.T) {
	t.Parallel()
	const s = time.Second
	to := func(classes ...fault) func(context.Context, int) error {
		return func(_ context.Context, attempt int) error {
			if attempt > len(classes) {
				return nil
			}
			return fmt.Errorf("asking: %w", classes[attempt-1])
		}
	}
	transient, throttled, uncertain := fault{class: retry.Transient}, fault{class: retry.Throttled}, fault{class: retry.Uncertain}
	for title, c := range map[string]struct {
		op     func(context.Context, int) error
		waits  []time.Duration
		reason retry.Reason // "" is success
		class  retry.Class
	}{
		"success at once":               {op: to()},
		"transient, then success":       {op: to(transient, transient, transient, transient, transient), waits: []time.Duration{5 * s, 10 * s, 20 * s, 30 * s, 30 * s}},
		"throttled without a hint":      {op: to(throttled, throttled), waits: []time.Duration{5 * s, 10 * s}},
		"throttled with a hint":         {op: to(fault{retry.Throttled, 60 * s}, fault{retry.Throttled, 3 * s}), waits: []time.Duration{62500 * time.Millisecond, 10 * s}},
		"uncertain, then success":       {op: to(uncertain, uncertain), waits: []time.Duration{5 * s, 10 * s}},
		"uncertain three times":         {op: always(uncertain), waits: []time.Duration{5 * s, 10 * s}, reason: retry.Refused},
		"refusals in a row are counted": {op: to(uncertain, uncertain, transient, uncertain, uncertain), waits: []time.Duration{5 * s, 10 * s, 20 * s, 30 * s, 30 * s}},
		"permanent":                     {op: always(fault{class: retry.Permanent}), reason: retry.CannotHelp},
		"no class":                      {op: always(errors.New("no space left on device")), reason: retry.CannotHelp},
		"permanent in the end":          {op: to(transient, fault{class: retry.Permanent}), waits: []time.Duration{5 * s}, reason: retry.CannotHelp},
		"asked past the deadline":       {op: always(fault{retry.Throttled, time.Hour}), reason: retry.AskedTooFar, class: retry.Throttled},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				waited, attempts, err := waits(t, whole(), c.op)
				require.Equal(t, c.waits, waited)
				require.Equal(t, len(c.waits)+1, attempts)
				if c.reason == "" {
					require.NoError(t, err)
					return
				}
				final, ok := errors.AsType[*retry.Error](err)
				require.True(t, ok)
				require.Equal(t, c.reason, final.Reason)
				require.Equal(t, attempts, final.Attempts)
				require.Equal(t, time.Since(start), final.Elapsed)
				class, _ := retry.ClassOf(err)
				require.Equal(t, c.class, class)
			})
		})
	}
}

func TestTheDeadlineIsSpentToTheEnd(t *testing.T) {
	t.Parallel()
	for title, took := range map[string]time.Duration{"quick": 0, "slow": 700 * time.Millisecond, "hanging": 15 * time.Second} {
		for _, jitter := range []float64{0, 0.3, 0.7, 1} {
			t.Run(fmt.Sprintf("%s tries, jitter %v", title, jitter), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					start := time.Now()
					waited, _, err := waits(t, retry.Policy{Jitter: func() float64 { return jitter }}, func(ctx context.Context, _ int) error {
						require.NoError(t, retry.Sleep(ctx, took))
						return fault{class: retry.Throttled}
					})
					final, ok := errors.AsType[*retry.Error](err)
					require.True(t, ok)
					require.Equal(t, retry.TimeIsUp, final.Reason)
					spent := time.Since(start)
					require.LessOrEqual(t, spent, 10*time.Minute)
					require.Less(t, 10*time.Minute-spent, max(waited[len(waited)-1], took))
					for _, wait := range waited {
						require.LessOrEqual(t, wait, 30*time.Second)
						require.GreaterOrEqual(t, wait, time.Second)
					}
				})
			})
		}
	}
}

func TestTheDefaultScheduleInFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		waited, attempts, err := waits(t, whole(), always(fault{class: retry.Throttled}))
		require.Equal(t, 23, attempts)
		require.Equal(t, 25*time.Second, waited[21], "the last wait is cut to end at the deadline")
		require.EqualError(t, err, "gave up after 23 attempts in 10m (throttled: no time is left for another try, timeout 10m): registry.example: throttled")
	})
}

func TestErrorsReadInOneLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for want, err := range map[string]error{
			"gave up after 1 attempt in 0s (permanent: another try can't help): registry.example: permanent":                                         fault{class: retry.Permanent},
			"gave up after 3 attempts in 15s (permanent: refused every time): registry.example: uncertain":                                           fault{class: retry.Uncertain},
			"gave up after 1 attempt in 0s (throttled: asked to wait past the deadline, 2h with a timeout of 10m): registry.example: throttled":      fault{retry.Throttled, 2 * time.Hour},
			"gave up after 1 attempt in 0s (throttled: asked to wait past the deadline, 12m30s with a timeout of 10m): registry.example: throttled":  fault{retry.Throttled, 750*time.Second + 300*time.Millisecond},
			"gave up after 1 attempt in 0s (transient: asked to wait past the deadline, 10m1s with a timeout of 10m): registry.example: transient":   fault{retry.Transient, 601 * time.Second},
			"gave up after 1 attempt in 0s (permanent: another try can't help): reading the index: registry.example: permanent in the second degree": fmt.Errorf("reading the index: %w\nin the second degree", fault{}),
		} {
			_, got := retry.Do(t.Context(), whole(), always(err))
			require.EqualError(t, got, want)
			require.ErrorIs(t, got, err)
		}
	})
}

func TestCancellationEndsAWaitAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		signal := errors.New("interrupt signal")
		time.AfterFunc(7*time.Second, func() { cancel(signal) })
		start := time.Now()
		attempts, err := retry.Do(ctx, whole(), always(fault{class: retry.Transient}))
		require.Equal(t, 7*time.Second, time.Since(start))
		require.Equal(t, 2, attempts)
		require.ErrorIs(t, err, signal)
		require.EqualError(t, err, "gave up after 2 attempts in 7s (permanent: interrupted): interrupt signal; before that: registry.example: transient")
		class, _ := retry.ClassOf(err)
		require.Equal(t, retry.Permanent, class)

		attempts, err = retry.Do(ctx, whole(), func(context.Context, int) error {
			t.Error("a try was made after the end")
			return nil
		})
		require.Zero(t, attempts)
		require.EqualError(t, err, "gave up after 0 attempts in 0s (permanent: interrupted): interrupt signal")
	})
}

func TestCancellationDuringATry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		attempts, err := retry.Do(ctx, whole(), func(ctx context.Context, _ int) error {
			return fmt.Errorf("reading: %w", retry.Sleep(ctx, time.Hour))
		})
		require.Equal(t, 1, attempts)
		require.EqualError(t, err, "gave up after 1 attempt in 1s (permanent: interrupted): reading: context canceled")
	})
}

func TestTheContextsDeadlineCountsWhereItIsEarlier(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		start := time.Now()
		attempts, err := retry.Do(ctx, whole(), func(ctx context.Context, _ int) error {
			require.NoError(t, retry.Sleep(ctx, time.Second))
			return fault{class: retry.Transient}
		})
		require.EqualError(t, err, "gave up after 3 attempts in 18s (transient: no time is left for another try, timeout 20s): registry.example: transient")
		require.Equal(t, 3, attempts)
		require.Equal(t, 18*time.Second, time.Since(start))
	})
}

func TestUsedTimeIsTakenOffTheTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := whole()
		p.Used = 9*time.Minute + 50*time.Second
		start := time.Now()
		_, err := retry.Do(t.Context(), p, always(fault{class: retry.Transient}))
		require.EqualError(t, err, "gave up after 3 attempts in 10m (transient: no time is left for another try, timeout 10m): registry.example: transient")
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}

func TestWaitsAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type told struct {
			attempt int
			wait    time.Duration
			err     string
		}
		var all []told
		p := whole()
		p.OnWait = func(attempt int, wait time.Duration, err error) { all = append(all, told{attempt, wait, err.Error()}) }
		_, err := retry.Do(t.Context(), p, always(fault{class: retry.Uncertain}))
		require.Error(t, err)
		require.Equal(t, []told{{1, 5 * time.Second, "registry.example:\nuncertain"}, {2, 10 * time.Second, "registry.example:\nuncertain"}}, all)
	})
}

func TestWaitsDifferByDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := map[time.Duration]bool{}
		for range 8 {
			waited, _, err := waits(t, retry.Policy{}, func(_ context.Context, attempt int) error {
				if attempt == 2 {
					return nil
				}
				return fault{class: retry.Transient}
			})
			require.NoError(t, err)
			require.GreaterOrEqual(t, waited[0], 2500*time.Millisecond)
			require.LessOrEqual(t, waited[0], 5*time.Second)
			seen[waited[0]] = true
		}
		require.Greater(t, len(seen), 1)
	})
}

func TestThoseToldTheSameWakeSpreadOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		woke := make(chan time.Duration, 8)
		for range cap(woke) {
			go func() {
				_, err := retry.Do(t.Context(), retry.Policy{}, func(_ context.Context, attempt int) error {
					if attempt == 2 {
						woke <- time.Since(start)
						return nil
					}
					return fault{retry.Throttled, time.Minute}
				})
				if err != nil {
					t.Error(err)
				}
			}()
		}
		seen := map[time.Duration]bool{}
		for range cap(woke) {
			at := <-woke
			require.GreaterOrEqual(t, at, time.Minute)
			require.Less(t, at, time.Minute+2500*time.Millisecond)
			seen[at] = true
		}
		require.Len(t, seen, cap(woke))
	})
}
