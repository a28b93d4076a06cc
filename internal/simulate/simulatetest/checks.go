package simulatetest

import (
	"time"

	"github.com/pullonce/pullonce/internal/simulate"
)

// Check is a setting at which a run loses some of its lanes and keeps others, for real and simulated.
type Check struct {
	Strategy simulate.Strategy
	Setting  simulate.Setting
}

// Lanes is the width of every check.
const Lanes = 200

// Checks are the settings at which the model is held to reality. They are scaled down, so that a run for real takes well
// under a minute: small images, short timeouts, limits that a matrix of this width meets in seconds.
func Checks() map[string]Check {
	s := simulate.Defaults()
	s.Lanes, s.Images, s.Image = Lanes, 3, simulate.Image{Size: 6000, Layers: 2}
	s.Latency, s.Spread, s.LaneTimeout = 20*time.Millisecond, 8*time.Second, 15*time.Second
	with := func(strategy simulate.Strategy, t simulate.Throttle) Check {
		s.Throttle = t
		return Check{strategy, s}
	}
	return map[string]Check{
		"three quick tries, 8 IPs":                    with(simulate.Pull, simulate.Throttle{Requests: 5, Window: time.Second, Burst: 40, IPs: 8}),
		"a deadline, without Retry-After, 5 IPs":      with(simulate.PullDeadline, simulate.Throttle{Requests: 4, Window: time.Second, Burst: 40, IPs: 5}),
		"a deadline, with Retry-After, blobs, 20 IPs": with(simulate.PullDeadline, simulate.Throttle{Requests: 2, Window: time.Second, Burst: 20, IPs: 20, RetryAfter: true, CountBlobs: true}),
	}
}
