// Package result owns what a benchmark found out: samples, what they come to, and the limits that they are held to. It is
// plain data and knows nothing of how it was measured.
package result

import (
	"time"

	"github.com/pullonce/pullonce/bench/internal/link"
	"github.com/pullonce/pullonce/bench/internal/measure"
	"github.com/pullonce/pullonce/bench/internal/sample"
)

// Report is a whole run.
type Report struct {
	Date     time.Time                 `json:"date"`
	Machine  Machine                   `json:"machine"`
	Programs map[string]string         `json:"programs"` // versions by name
	Settings Settings                  `json:"settings"`
	Images   map[string][]sample.Image `json:"images"`
	Cases    []Case                    `json:"cases"`
	Checks   []Check                   `json:"checks"`
}

// Machine is what it ran on.
type Machine struct {
	System      string            `json:"system"`
	Kernel      string            `json:"kernel"`
	CPU         string            `json:"cpu"`
	Cores       int               `json:"cores"`
	Memory      int64             `json:"memory"` // bytes
	FileSystems map[string]string `json:"fileSystems"`
}

// Settings are what the run was asked for.
type Settings struct {
	Bandwidth int64         `json:"bandwidth"` // of the line to the store, in bytes a second
	Latency   time.Duration `json:"latency"`   // of a request to it
	Kept      bool          `json:"kept"`      // whether the line has the store's blobs in memory
	Rounds    int           `json:"rounds"`
	Command   string        `json:"command"`
}

// Case is a job on a target, and how each contender did it.
type Case struct {
	Mode   string   `json:"mode"`
	Image  string   `json:"image"`
	Target string   `json:"target"`
	Data   string   `json:"data"` // the file system of the target and of the job
	Series []Series `json:"series"`
}

// Series is how a contender did, round by round.
type Series struct {
	Contender string `json:"contender"`
	// Problem says why there are no samples, or no more.
	Problem string   `json:"problem,omitempty"`
	Samples []Sample `json:"samples"`
}

// Sample is a round of a contender.
type Sample struct {
	Round int `json:"round"`
	// Usage is that of the contender's own programs.
	measure.Usage
	// DaemonCPU and DaemonPeak are those of the target's daemons meanwhile.
	DaemonCPU  time.Duration `json:"daemonCPU"`
	DaemonPeak int64         `json:"daemonPeak"`
	// StoreCPU is the processor time of store, registry and the line to them.
	StoreCPU time.Duration `json:"storeCPU"`
	// OtherCPU is the processor time, meanwhile, of what does not belong to the benchmark.
	OtherCPU time.Duration `json:"otherCPU"`
	// Store and Registry are what was asked of them.
	Store    link.Counts `json:"store"`
	Registry link.Counts `json:"registry"`
	Steps    []Step      `json:"steps"`
}

// Step is a command of a round.
type Step struct {
	Command string `json:"command"`
	measure.Usage
}

// Others is the share of the machine's processors that went to others while something was measured.
func (r Report) Others() float64 {
	var other, wall time.Duration
	for _, c := range r.Cases {
		for _, s := range c.Series {
			for _, x := range s.Samples {
				other, wall = other+x.OtherCPU, wall+x.Wall
			}
		}
	}
	if wall == 0 || r.Machine.Cores == 0 {
		return 0
	}
	return other.Seconds() / wall.Seconds() / float64(r.Machine.Cores)
}

// Find is a contender's series; false if there is none with samples and without a problem.
func (c Case) Find(contender string) (Series, bool) {
	for _, s := range c.Series {
		if s.Contender == contender {
			return s, s.Problem == "" && len(s.Samples) > 0
		}
	}
	return Series{}, false
}
