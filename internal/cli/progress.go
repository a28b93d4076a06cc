package cli

import (
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/pullonce/pullonce/internal/report"
)

// closingProgress is a report.Progress that must be closed before anything else is printed.
type closingProgress interface {
	report.Progress
	Close()
}

// progress shows bars on a terminal and lines elsewhere.
func (s *session) progress() closingProgress {
	if !s.runner.Enabled() && term.IsTerminal(int(s.Stderr.Fd())) {
		return newBars(s.Stderr)
	}
	return &lines{printf: s.printf, now: time.Now}
}

// bars draws one bar for each image that moves: bytes, rate, time left.
type bars struct{ container *mpb.Progress }

var _ closingProgress = (*bars)(nil)

func newBars(out *os.File) *bars {
	return &bars{mpb.New(mpb.WithOutput(out), mpb.WithWidth(40), mpb.WithAutoRefresh())}
}

// Begin implements report.Progress.
func (b *bars) Begin(name string, total int64) report.Track {
	return &bar{b.container.AddBar(total,
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(name, decor.WCSyncSpaceR)),
		mpb.AppendDecorators(
			decor.CountersKiloByte("% .1f / % .1f", decor.WCSyncSpace),
			decor.EwmaSpeed(decor.SizeB1000(0), "% .1f", 30, decor.WCSyncSpace),
			decor.EwmaETA(decor.ET_STYLE_GO, 30, decor.WCSyncSpace),
		),
	), sync.Mutex{}, time.Now()}
}

// Done implements report.Progress: the table will say it.
func (b *bars) Done(report.Image) {}

// Close waits until the last frame is drawn.
func (b *bars) Close() { b.container.Wait() }

type bar struct {
	bar  *mpb.Bar
	mu   sync.Mutex
	last time.Time
}

// Add implements report.Track.
func (b *bar) Add(n int) {
	b.mu.Lock()
	now := time.Now()
	spent := now.Sub(b.last)
	b.last = now
	b.mu.Unlock()
	b.bar.EwmaIncrBy(n, spent)
}

// End implements report.Track. An image that did not move whole leaves no bar behind.
func (b *bar) End() { b.bar.Abort(true) }

// every is how often a line tells of an image that still moves.
const every = 15 * time.Second

// lines writes a line when an image begins to move, one now and then while it does, and one when it is done.
type lines struct {
	printf func(format string, args ...any)
	now    func() time.Time
}

var _ closingProgress = (*lines)(nil)

// Begin implements report.Progress. Its line waits for the first byte: an image that is there already does not move.
func (l *lines) Begin(name string, total int64) report.Track {
	now := l.now()
	return &lineTrack{lines: l, name: name, total: total, begun: now, told: now}
}

// Done implements report.Progress.
func (l *lines) Done(row report.Image) {
	l.printf("%s: %s in %s", row.Name, row.Outcome, report.Duration(row.Elapsed))
}

// Close implements closingProgress.
func (l *lines) Close() {}

type lineTrack struct {
	lines       *lines
	name        string
	total       int64
	mu          sync.Mutex
	seen        int64
	begun, told time.Time
}

// Add implements report.Track.
func (t *lineTrack) Add(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen == 0 {
		t.lines.printf("%s: moving %s", t.name, report.Bytes(t.total))
	}
	t.seen += int64(n)
	now := t.lines.now()
	if now.Sub(t.told) < every {
		return
	}
	t.told = now
	rate := float64(t.seen) / now.Sub(t.begun).Seconds()
	left := time.Duration(float64(max(0, t.total-t.seen)) / rate * float64(time.Second))
	t.lines.printf("%s: %s of %s, %s/s, %s left", t.name, report.Bytes(t.seen), report.Bytes(t.total), report.Bytes(int64(rate)), report.Duration(left))
}

// End implements report.Track.
func (t *lineTrack) End() {}
