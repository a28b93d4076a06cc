package simulate

import (
	"math"
	"slices"
	"time"
)

// Answer is what was simulated and what came of it.
type Answer struct {
	Setting Setting `json:"setting"`
	// Preset is where the throttle is from, changed perhaps; nil for one of the user's own.
	Preset *Preset `json:"preset,omitempty"`
	Seed   uint64  `json:"seed"`
	// Runs is how many runs each verdict at full width rests on.
	Runs       int        `json:"runs"`
	Strategies []Verdict  `json:"strategies"`
	Widths     []Width    `json:"widths"`
	Timelines  []Timeline `json:"timelines"`
}

// Verdict is how one strategy does, over all runs.
type Verdict struct {
	Strategy Strategy `json:"strategy"`
	Lanes    int      `json:"lanes"`
	// Runs is how many there were, Red in how many a lane failed.
	Runs int `json:"runs"`
	Red  int `json:"red"`
	// Probability is that of a red run.
	Probability Interval `json:"probability"`
	// Failed is how many lanes failed in a run.
	Failed Spread `json:"lanes_failed"`
	// Requests, Throttled and the rest are means over the runs.
	Requests       float64 `json:"requests"`
	Throttled      float64 `json:"throttled"`
	CacheRequests  float64 `json:"cache_requests"`
	CacheThrottled float64 `json:"cache_throttled"`
	RegistryBytes  float64 `json:"registry_bytes"`
	CacheBytes     float64 `json:"cache_bytes"`
	// LastLane is when the last lane ended, in seconds from the start of the run, over all runs.
	LastLane Quantiles `json:"last_lane_seconds"`
	// Lane is when lanes ended, in seconds: the medians over all runs of each run's quantiles.
	Lane Quantiles `json:"lane_seconds"`
}

// Interval is a probability and the 95 % interval in which it lies.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Spread is a mean with its extremes.
type Spread struct {
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
}

// Quantiles are the median, the 95th percentile and the largest.
type Quantiles struct {
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P100 float64 `json:"p100"`
}

// Width is how the strategies do at one width.
type Width struct {
	Lanes      int     `json:"lanes"`
	Strategies []Share `json:"strategies"`
}

// Share is what of a Verdict can be compared between widths.
type Share struct {
	Strategy Strategy `json:"strategy"`
	Runs     int      `json:"runs"`
	// Failed is the share of lanes that failed, the mean over all runs.
	Failed      float64  `json:"failed_share"`
	Probability Interval `json:"probability"`
}

// Timeline is the first run, second by second from its start.
type Timeline struct {
	Strategy Strategy `json:"strategy"`
	// Counted are the requests that count against the limit, Shed those of them that were refused.
	Counted []int `json:"counted"`
	Shed    []int `json:"shed"`
	// Attempts are tries at images: the first at each, and each further one.
	Attempts []int `json:"attempts"`
}

// share is the part of the verdict that can be compared between widths.
func (v Verdict) share() Share {
	return Share{Strategy: v.Strategy, Runs: v.Runs, Failed: v.Failed.Mean / float64(v.Lanes), Probability: v.Probability}
}

// summarize makes one verdict of many runs.
func summarize(strategy Strategy, lanes int, outcomes []Outcome) Verdict {
	v := Verdict{Strategy: strategy, Runs: len(outcomes), Lanes: lanes}
	failed, last := make([]float64, len(outcomes)), make([]float64, len(outcomes))
	quantiles := make([]Quantiles, len(outcomes))
	var total Outcome
	for i, out := range outcomes {
		failed[i], last[i], quantiles[i] = float64(out.Failed), out.end.Seconds(), quantilesOf(seconds(out.Ends))
		if out.Failed > 0 {
			v.Red++
		}
		total.add(out)
	}
	mean := func(sum int64) float64 { return float64(sum) / float64(len(outcomes)) }
	v.Failed.Mean = mean(int64(total.Failed))
	v.Requests, v.Throttled = mean(int64(total.Requests)), mean(int64(total.Throttled))
	v.CacheRequests, v.CacheThrottled = mean(int64(total.CacheRequests)), mean(int64(total.CacheThrottled))
	v.RegistryBytes, v.CacheBytes = mean(total.RegistryBytes), mean(total.CacheBytes)
	v.Failed.Min, v.Failed.Max = slices.Min(failed), slices.Max(failed)
	v.Probability = Wilson(v.Red, v.Runs)
	v.LastLane = quantilesOf(last)
	v.Lane = medians(quantiles)
	return v
}

// add adds what can be added up.
func (o *Outcome) add(other Outcome) {
	o.Failed += other.Failed
	o.Requests += other.Requests
	o.Throttled += other.Throttled
	o.CacheRequests += other.CacheRequests
	o.CacheThrottled += other.CacheThrottled
	o.RegistryBytes += other.RegistryBytes
	o.CacheBytes += other.CacheBytes
}

func seconds(ends []time.Duration) []float64 {
	all := make([]float64, len(ends))
	for i, end := range ends {
		all[i] = end.Seconds()
	}
	return all
}

// quantilesOf are those of values, by the nearest rank; zero where there are none. It sorts values.
func quantilesOf(values []float64) Quantiles {
	if len(values) == 0 {
		return Quantiles{}
	}
	slices.Sort(values)
	rank := func(share float64) float64 { return values[max(0, int(math.Ceil(share*float64(len(values))))-1)] }
	return Quantiles{P50: rank(0.5), P95: rank(0.95), P100: rank(1)}
}

// medians are the medians of each quantile.
func medians(of []Quantiles) Quantiles {
	median := func(pick func(Quantiles) float64) float64 {
		all := make([]float64, len(of))
		for i, q := range of {
			all[i] = pick(q)
		}
		return quantilesOf(all).P50
	}
	return Quantiles{
		P50:  median(func(q Quantiles) float64 { return q.P50 }),
		P95:  median(func(q Quantiles) float64 { return q.P95 }),
		P100: median(func(q Quantiles) float64 { return q.P100 }),
	}
}

// Wilson is the share of hits among n trials, with Wilson's score interval at 95 % (Wilson 1927): unlike the textbook
// interval it is right near 0 and 1, where most of these shares lie.
func Wilson(hits, n int) Interval {
	if n == 0 {
		return Interval{Low: 0, High: 1}
	}
	const z = 1.959963984540054
	size := float64(n)
	p := float64(hits) / size
	centre := (p + z*z/(2*size)) / (1 + z*z/size)
	half := z / (1 + z*z/size) * math.Sqrt(p*(1-p)/size+z*z/(4*size*size))
	return Interval{Value: p, Low: max(0, centre-half), High: min(1, centre+half)}
}
