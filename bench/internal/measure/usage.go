// Package measure owns what a program costs: the time that it takes, the processor time of it and of what it started, and
// the largest memory of any of them. It knows nothing of what the programs do.
//
// Linux counts into a process's peak memory what the one that forked it had in use. So a program is not started by the
// benchmark, which is large, but by a small process in between: the same binary, in a mode that does nothing else (Child).
// Its own few megabytes are the least that can be measured.
package measure

import "time"

// Usage is what a program took.
type Usage struct {
	// Wall is from its start to its end.
	Wall time.Duration `json:"wall"`
	// User and System are the processor time of the program and of all that it started and waited for.
	User   time.Duration `json:"user"`
	System time.Duration `json:"system"`
	// PeakRSS is the largest resident memory of any one of these processes, in bytes.
	PeakRSS int64 `json:"peakRSS"`
	// Written is what they wrote to file systems with a disk behind them, in bytes.
	Written int64 `json:"written"`
}

// CPU is all processor time.
func (u Usage) CPU() time.Duration { return u.User + u.System }

// Add is the usage of one after the other.
func (u Usage) Add(o Usage) Usage {
	return Usage{
		Wall: u.Wall + o.Wall, User: u.User + o.User, System: u.System + o.System,
		PeakRSS: max(u.PeakRSS, o.PeakRSS), Written: u.Written + o.Written,
	}
}
