package result

import (
	"slices"
	"time"
)

// Median is the middle of figures, or the mean of the two in the middle; 0 of none.
func Median[T ~int64 | ~float64](figures []T) T {
	if len(figures) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(figures))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Of is the median of a figure over the rounds.
func Of[T ~int64 | ~float64](s Series, figure func(Sample) T) T {
	figures := make([]T, len(s.Samples))
	for i, sample := range s.Samples {
		figures[i] = figure(sample)
	}
	return Median(figures)
}

// Wall is the median of the time from start to end.
func (s Series) Wall() time.Duration { return Of(s, func(x Sample) time.Duration { return x.Wall }) }

// Peak is the largest memory of any round, in bytes.
func (s Series) Peak() int64 {
	var peak int64
	for _, sample := range s.Samples {
		peak = max(peak, sample.PeakRSS)
	}
	return peak
}

// Ratio is one contender's time as a share of another's.
type Ratio struct {
	// Median is the ratio of the medians.
	Median float64
	// Least and Most are the smallest and the largest ratio of a round.
	Least, Most float64
}

// RatioOf compares a with b, round by round. Both must have samples.
func RatioOf(a, b Series) Ratio {
	r := Ratio{Median: a.Wall().Seconds() / b.Wall().Seconds()}
	for i := range min(len(a.Samples), len(b.Samples)) {
		ratio := a.Samples[i].Wall.Seconds() / b.Samples[i].Wall.Seconds()
		if i == 0 || ratio < r.Least {
			r.Least = ratio
		}
		r.Most = max(r.Most, ratio)
	}
	return r
}
