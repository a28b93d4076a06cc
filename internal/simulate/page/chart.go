package page

import (
	"fmt"
	"math"
	"strings"
)

// chart is a line chart and the table behind it. The lines are drawn in a square of 1000 that the page stretches to any
// shape; whatever must not be stretched, the labels, is text beside it.
type chart struct {
	ID, Title, Caption string
	XTitle, YTitle     string
	Lines              []line
	X, Y               []tick
	Head               []string
	Rows               [][]cell
}

// line is one series: its class decides colour and dashes.
type line struct {
	Name, Class, Path string
	Dots              []dot
}

// dot is a point with a text for whoever rests on it.
type dot struct{ Path, Text string }

// tick is a label at a share of an axis, in per cent. One in two is Minor: narrow pages leave it out.
type tick struct {
	At    float64
	Label string
	Minor bool
}

// Up and Along are where the tick's line is drawn: as a height from the top, and as a distance from the left.
func (t tick) Up() float64    { return round(1000 - 10*t.At) }
func (t tick) Along() float64 { return round(10 * t.At) }

// cell is a figure in a table.
type cell struct {
	Key   string
	Value float64
	Text  string
}

// point is a point in the terms of the axes.
type point struct{ x, y float64 }

// axis maps values to [0, 1].
type axis struct {
	low, high float64
	log       bool
}

func (a axis) at(value float64) float64 {
	low, high := a.low, a.high
	if a.log {
		low, high, value = math.Log10(low), math.Log10(high), math.Log10(max(value, a.low))
	}
	if high == low {
		return 0
	}
	return (value - low) / (high - low)
}

// ticks are round values on the axis.
func (a axis) ticks(label func(float64) string) []tick {
	var ticks []tick
	for i, value := range a.values() {
		ticks = append(ticks, tick{At: round(100 * a.at(value)), Label: label(value), Minor: i%2 == 1})
	}
	return ticks
}

func (a axis) values() []float64 {
	var values []float64
	if a.log {
		for v := a.low; v <= a.high; v *= 10 {
			values = append(values, v)
		}
		return values
	}
	step := niceStep(a.high - a.low)
	for i := 0; a.low+float64(i)*step <= a.high*(1+1e-9); i++ {
		values = append(values, a.low+float64(i)*step)
	}
	return values
}

// niceStep is 1, 2 or 5 times a power of ten, such that a span has about five steps.
func niceStep(span float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(span/5)))
	for _, digit := range []float64{1, 2, 5} {
		if span/(digit*power) <= 6 {
			return digit * power
		}
	}
	return 10 * power
}

// upTo is an axis from 0 to a round value not below high.
func upTo(high float64) axis {
	if high <= 0 {
		high = 1
	}
	step := niceStep(high)
	return axis{high: math.Ceil(high/step-1e-9) * step}
}

// draw makes a line of points, with a dot at each that has a text.
func draw(name, class string, x, y axis, points []point, text func(point) string) line {
	l := line{Name: name, Class: class}
	var path strings.Builder
	for i, p := range points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		at := fmt.Sprintf("%g %g", round(1000*x.at(p.x)), round(1000*(1-y.at(p.y))))
		path.WriteString(command + at)
		if text != nil {
			l.Dots = append(l.Dots, dot{Path: "M" + at + "h0", Text: text(p)})
		}
	}
	l.Path = path.String()
	return l
}

func round(v float64) float64 { return math.Round(v*100) / 100 }

// highest is the largest y of all points.
func highest(series ...[]point) float64 {
	high := 0.0
	for _, points := range series {
		for _, p := range points {
			high = max(high, p.y)
		}
	}
	return high
}
