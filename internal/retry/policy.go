package retry

import (
	"cmp"
	"time"
)

const (
	// throttleFloor is the shortest wait after a throttle. Registries have asked for microseconds, which is a way of
	// saying nothing.
	throttleFloor = time.Second
	// maxRefusals is how many tries in a row may end Uncertain.
	maxRefusals = 3
)

// Policy is a schedule that ends at a deadline, not after a count. Its zero value is the default schedule.
type Policy struct {
	// Timeout is how long tries may follow one another; 10 min by default. A try under way is not cut by it.
	Timeout time.Duration
	// First is the first wait and Max the longest; each is twice the one before. 5 s and 30 s by default.
	First, Max time.Duration
	// Used is how much of Timeout earlier work on the same schedule has used up; none by default.
	Used time.Duration
	// Jitter gives numbers in [0, 1) that spread the waits; math/rand/v2's by default. It must be safe for concurrent
	// use.
	Jitter func() float64
	// OnWait is told of each wait before it begins: how many tries were made, how long it is, and why. It may be nil.
	OnWait func(attempt int, wait time.Duration, err error)
}

// Try is a try that has failed, as far as the schedule looks at it.
type Try struct {
	// Attempt is the number of tries so far, this one included.
	Attempt int
	// Refusals is the number of tries that ended Uncertain without another class between them, this one included.
	Refusals int
	// Elapsed is how much of the timeout is used up, and Took how much of that this try took.
	Elapsed, Took time.Duration
	// Class and Hint are those of the try's error: see Classified.
	Class Class
	Hint  time.Duration
	// Jitter in [0, 1] puts the wait between its least and its greatest length.
	Jitter float64
}

// Reason says why no other try follows; "" is no reason.
type Reason string

// The reasons to stop.
const (
	CannotHelp  Reason = "another try can't help"
	Refused     Reason = "refused every time"
	TimeIsUp    Reason = "no time is left for another try"
	AskedTooFar Reason = "asked to wait past the deadline"
	Interrupted Reason = "interrupted"
)

// Next is the schedule: how long to wait before the next try, or the reason why none follows. It is pure.
//
// The wait lies between half and the whole of First, 2×First, 4×First … Max. What the other side asks for is a minimum,
// and the same spread comes on top of it, so that those who were told the same do not come back together. The last
// wait is cut so that a try as long as this one fits before the deadline.
func (p Policy) Next(t Try) (time.Duration, Reason) {
	p = p.withDefaults()
	switch {
	case t.Class == Permanent:
		return 0, CannotHelp
	case t.Class == Uncertain && t.Refusals >= maxRefusals:
		return 0, Refused
	}
	left := p.Timeout - t.Elapsed
	switch {
	case left <= 0:
		return 0, TimeIsUp
	case t.Hint > left:
		return 0, AskedTooFar
	}
	base := p.base(t.Attempt)
	least := t.Hint
	if t.Class == Throttled {
		least = max(least, throttleFloor)
	}
	wait := max(base/2, least) + time.Duration(t.Jitter*float64(base/2))
	// What took longer than half a wait was work, not a refusal, and need not be expected again.
	room := left - min(t.Took, base/2)
	if wait <= room {
		return wait, ""
	}
	// Less than a tenth of a wait changes nothing at the other side.
	if room < max(least, base/10) {
		return 0, TimeIsUp
	}
	return room, ""
}

// base is the whole of the wait after a number of tries.
func (p Policy) base(attempts int) time.Duration {
	base := p.First
	for i := 1; i < attempts && base < p.Max; i++ {
		base *= 2
	}
	return min(base, p.Max)
}

func (p Policy) withDefaults() Policy {
	p.Timeout = cmp.Or(p.Timeout, 10*time.Minute)
	p.First = cmp.Or(p.First, 5*time.Second)
	p.Max = cmp.Or(p.Max, 30*time.Second)
	return p
}
