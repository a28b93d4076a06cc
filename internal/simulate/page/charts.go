package page

import (
	"fmt"

	"github.com/pullonce/pullonce/internal/simulate"
)

// failures is the share of lanes that fail, over the width of the matrix.
func failures(a simulate.Answer) chart {
	x, y := axis{low: 1, high: float64(max(10, a.Setting.Lanes)), log: true}, axis{high: 1}
	c := chart{
		ID: "width", Title: "Lanes that fail, by width of the matrix", XTitle: "lanes", YTitle: "share of lanes that fail",
		Caption: "The mean over all runs. The same images, the same limit: only the number of lanes grows.",
		X:       x.ticks(simulate.Count), Y: y.ticks(simulate.Percent), Head: []string{"lanes"},
	}
	for i, verdict := range a.Strategies {
		name := string(verdict.Strategy)
		points := make([]point, len(a.Widths))
		for j, width := range a.Widths {
			points[j] = point{float64(width.Lanes), width.Strategies[i].Failed}
		}
		c.Lines = append(c.Lines, draw(name, name, x, y, points, func(p point) string {
			return fmt.Sprintf("%s, %s lanes: %s fail", name, simulate.Count(p.x), simulate.Percent(p.y))
		}))
		c.Head = append(c.Head, name+": lanes that fail", name+": run is red")
	}
	for _, width := range a.Widths {
		key := fmt.Sprintf("width/%d/", width.Lanes)
		row := []cell{{key + "lanes", float64(width.Lanes), simulate.Count(float64(width.Lanes))}}
		for _, s := range width.Strategies {
			row = append(row, cell{key + string(s.Strategy) + "/failed", s.Failed, simulate.Percent(s.Failed)},
				cell{key + string(s.Strategy) + "/red", s.Probability.Value, s.Probability.String()})
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// maxPoints is how many points a line over time has at most.
const maxPoints = 120

// rates is how fast counted requests come, and the rate at which the limit lets them through for good.
func rates(a simulate.Answer) chart {
	t := a.Setting.Throttle
	limit := float64(t.Requests*t.IPs) / t.Window.Seconds()
	c := overTime(a, "rate", func(tl simulate.Timeline, from, to int) float64 {
		return float64(sum(tl.Counted, from, to)) / float64(to-from)
	}, &limit)
	c.Title, c.YTitle = "Requests that count, against the limit", "requests a second"
	c.Caption = fmt.Sprintf("The first run. All addresses together may make %s requests a second for good, after a burst of %s.",
		simulate.Count(limit), simulate.Count(float64(t.Burst*t.IPs)))
	return c
}

// attempts is how many tries at images were made.
func attempts(a simulate.Answer) chart {
	c := overTime(a, "attempts", func(tl simulate.Timeline, _, to int) float64 { return float64(sum(tl.Attempts, 0, to)) }, nil)
	c.Title, c.YTitle = "Attempts over time", "attempts so far"
	c.Caption = "The first run. An attempt is a try at an image: the first, and each further one after a refusal."
	return c
}

// overTime is a chart of the first run, with what value says of each span of seconds, and a limit.
func overTime(a simulate.Answer, id string, value func(tl simulate.Timeline, from, to int) float64, limit *float64) chart {
	length := 1
	for _, tl := range a.Timelines {
		length = max(length, len(tl.Counted), len(tl.Attempts))
	}
	step := (length + maxPoints - 1) / maxPoints
	series := make([][]point, len(a.Timelines))
	c := chart{ID: id, XTitle: "seconds from the start of the run", Head: []string{"seconds"}}
	for from := 0; from < length; from += step {
		row := []cell{{fmt.Sprintf("%s/%d/seconds", id, from), float64(from), simulate.Count(float64(from))}}
		for i, tl := range a.Timelines {
			v := value(tl, from, from+step)
			series[i] = append(series[i], point{float64(from), v})
			row = append(row, cell{fmt.Sprintf("%s/%d/%s", id, from, tl.Strategy), v, simulate.Count(v)})
		}
		c.Rows = append(c.Rows, row)
	}
	high := highest(series...)
	if limit != nil {
		high = max(high, min(*limit, 2*high))
	}
	x, y := upTo(float64(length)), upTo(high)
	c.X, c.Y = x.ticks(func(s float64) string { return simulate.Count(s) }), y.ticks(simulate.Count)
	for i, tl := range a.Timelines {
		c.Lines = append(c.Lines, draw(string(tl.Strategy), string(tl.Strategy), x, y, series[i], nil))
		c.Head = append(c.Head, string(tl.Strategy))
	}
	if limit != nil && *limit <= y.high {
		c.Lines = append(c.Lines, draw("limit", "limit", x, y, []point{{0, *limit}, {x.high, *limit}}, nil))
	}
	return c
}

// sum adds up counts[from:to], as far as there are any.
func sum(counts []int, from, to int) int {
	total := 0
	for i := from; i < min(to, len(counts)); i++ {
		total += counts[i]
	}
	return total
}
