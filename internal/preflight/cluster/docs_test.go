package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/goldentest"
	"github.com/pullonce/pullonce/internal/preflight"
	"github.com/pullonce/pullonce/internal/preflight/apitest"
	"github.com/pullonce/pullonce/internal/retry"
)

// The measured part of the page stands between these lines.
const (
	measuredBegin = "<!-- What follows is written by: go test ./internal/preflight/cluster -run Docs -update -->\n"
	measuredEnd   = "<!-- end of what is measured -->\n"
)

// TestDocsSayWhatIsMeasured sends preflights through windows and holds the page to what came of them. A thousand take a
// minute, most of it for TLS: they are what the end-to-end suite runs, and what -update writes down.
func TestDocsSayWhatIsMeasured(t *testing.T) {
	t.Parallel()
	whole := goldentest.Updating() || os.Getenv("PULLONCE_E2E") == "1"
	flights := 30
	if whole {
		flights = 1000
	}
	asked, once := fly(t, flights, flyWithRetry), fly(t, flights, flyWithout)
	require.Zero(t, failures(asked))
	require.NotZero(t, failures(once))
	path := filepath.Join("..", "..", "..", "docs", "preflight.md")
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), measuredBegin)
	require.True(t, ok)
	written, after, ok := strings.Cut(rest, measuredEnd)
	require.True(t, ok)
	if !whole {
		require.Contains(t, written, faultTable(), "write it anew with -update")
		return
	}
	measured := "\n" + faultTable() + measuredText + summaryTable(asked, once) + "\n" + attemptTable(asked) + "\n"
	if goldentest.Updating() {
		require.NoError(t, os.WriteFile(path, []byte(before+measuredBegin+measured+measuredEnd+after), 0o644))
		return
	}
	require.Equal(t, measured, written, "write it anew with -update")
}

const measuredText = `
A thousand preflights of the default permissions, begun at random moments, over TLS with an API that opens a window every 10 s:
1 to 6 s long, with connections refused, requests that hang, 403, 401, 429 or 503. Beside it the same with one try of each
question.

`

// cycle is how often a window opens.
const cycle = 10 * time.Second

// windows opens one window in each cycle: at a random moment, for 1 to 6 s, with a random fault.
func windows(seed uint64) func(time.Time) apitest.Fault {
	type window struct {
		from, to time.Duration
		fault    apitest.Fault
	}
	chance := rand.New(rand.NewPCG(seed, 0))
	all := make([]window, 10_000)
	for i := range all {
		length := time.Second + time.Duration(chance.Int64N(int64(5*time.Second)))
		from := time.Duration(chance.Int64N(int64(cycle - length)))
		faults := []apitest.Fault{apitest.Refused, apitest.Hang, "403", "401", "429", "503"}
		all[i] = window{from, from + length, faults[chance.IntN(len(faults))]}
	}
	start := time.Now()
	return func(at time.Time) apitest.Fault {
		since := at.Sub(start)
		w := all[int(since/cycle)%len(all)]
		if phase := since % cycle; w.from <= phase && phase < w.to {
			return w.fault
		}
		return apitest.None
	}
}

// flight is one preflight.
type flight struct {
	err      error
	attempts int // the most of a question
	tries    int // of all questions
	elapsed  time.Duration
}

// fly makes n flights one after the other, at random moments.
func fly(t *testing.T, n int, one func(*testing.T, preflight.Asker, []preflight.Question, uint64) flight) []flight {
	t.Helper()
	var all []flight
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &apitest.Server{Faults: windows(11)})
		api, questions := b.pod(t), hooks(t)
		chance := rand.New(rand.NewPCG(11, 1))
		for i := range n {
			require.NoError(t, retry.Sleep(t.Context(), time.Duration(chance.Int64N(int64(cycle)))))
			all = append(all, one(t, api, questions, uint64(i)))
		}
	})
	return all
}

func flyWithRetry(t *testing.T, api preflight.Asker, questions []preflight.Question, seed uint64) flight {
	t.Helper()
	began := time.Now()
	v, err := preflight.Ask(t.Context(), api, questions, preflight.Options{Jitter: func(q preflight.Question) func() float64 {
		return rand.New(rand.NewPCG(seed, uint64(slices.Index(questions, q)))).Float64
	}})
	require.NoError(t, err)
	f := flight{elapsed: time.Since(began)}
	for _, r := range v.Rows {
		f.attempts = max(f.attempts, r.Attempts)
		f.tries += r.Attempts
		f.err = errors.Join(f.err, r.Err)
	}
	require.Equal(t, f.err == nil, v.Allowed())
	return f
}

// flyWithout asks each question once, for as long as a try takes at most.
func flyWithout(t *testing.T, api preflight.Asker, questions []preflight.Question, _ uint64) flight {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), preflight.AttemptLimit)
	defer cancel()
	errs := make([]error, len(questions))
	var asking errgroup.Group
	for i, q := range questions {
		asking.Go(func() error {
			_, errs[i] = api.Ask(ctx, q)
			return nil
		})
	}
	require.NoError(t, asking.Wait())
	return flight{err: errors.Join(errs...), attempts: 1, tries: len(questions), elapsed: time.Since(began)}
}

func faultTable() string {
	var b strings.Builder
	b.WriteString("| What came, for 6 s | Tries | Answered after |\n|---|---|---|\n")
	for _, p := range passing() {
		fmt.Fprintf(&b, "| %s | %d | %s |\n", p.what, p.attempts, p.elapsed)
	}
	for _, fault := range final() {
		fmt.Fprintf(&b, "| %s | 1 | never: at once |\n", fault)
	}
	return b.String()
}

func summaryTable(asked, once []flight) string {
	var b strings.Builder
	row := func(what string, figure func([]flight) any) {
		fmt.Fprintf(&b, "| %s | %v | %v |\n", what, figure(asked), figure(once))
	}
	b.WriteString("| | Asked until answered | Asked once |\n|---|---|---|\n")
	row("preflights", func(f []flight) any { return len(f) })
	row("**failed**", func(f []flight) any {
		return fmt.Sprintf("**%d**", failures(f))
	})
	row("met a window", func(f []flight) any {
		met := 0
		for _, f := range f {
			if f.err != nil || f.attempts > 1 {
				met++
			}
		}
		return met
	})
	row("requests, of 13 questions each", func(all []flight) any {
		n := 0
		for _, f := range all {
			n += f.tries
		}
		return n
	})
	for _, p := range []int{50, 90, 99, 100} {
		row(fmt.Sprintf("added time, %s", percentileName(p)), func(f []flight) any { return seconds(percentile(f, p)) })
	}
	return b.String()
}

func attemptTable(all []flight) string {
	by := map[int][]flight{}
	for _, f := range all {
		by[f.attempts] = append(by[f.attempts], f)
	}
	var b strings.Builder
	b.WriteString("| Tries that the slowest question took | Preflights | Added time, median | Most |\n|---|---|---|---|\n")
	for _, attempts := range slices.Sorted(maps.Keys(by)) {
		f := by[attempts]
		fmt.Fprintf(&b, "| %d | %d | %s | %s |\n", attempts, len(f), seconds(percentile(f, 50)), seconds(percentile(f, 100)))
	}
	return b.String()
}

func failures(all []flight) int {
	n := 0
	for _, f := range all {
		if f.err != nil {
			n++
		}
	}
	return n
}

func percentile(all []flight, p int) time.Duration {
	times := make([]time.Duration, len(all))
	for i, f := range all {
		times[i] = f.elapsed
	}
	slices.Sort(times)
	return times[(len(times)-1)*p/100]
}

func percentileName(p int) string {
	switch p {
	case 50:
		return "median"
	case 100:
		return "most"
	default:
		return fmt.Sprintf("%d%% of them at most", p)
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
