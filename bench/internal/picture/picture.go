// Package picture owns the lanes of a report as an SVG that needs nothing else: bars of seconds, one panel a case. It knows
// figures and nothing of how they came about.
package picture

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/pullonce/pullonce/bench/internal/result"
)

// The sizes of the picture, in its own units.
const (
	width  = 860
	left   = 190 // of the bars
	right  = 150 // behind the longest bar, for its label
	bar    = 16
	row    = 24
	title  = 34 // of a panel
	margin = 16
	foot   = 72
)

// colours of bars: ours, and the others.
const (
	oursColour  = "#1a7f5a"
	plainColour = "#c9ced6"
	otherColour = "#7d8896"
)

// Draw draws the lanes of a report. It has a light ground of its own, so it can be read on a page of any colour.
func Draw(r result.Report) []byte {
	lanes := panels(r)
	height := margin + foot
	for _, p := range lanes {
		height += title + row*len(p.Series) + margin
	}
	c := &canvas{}
	c.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s" font-family="system-ui, sans-serif" font-size="13">`,
		width, height, width, height, escape(alternative(lanes)))
	c.add(`<rect width="%d" height="%d" rx="8" fill="#ffffff"/>`, width, height)
	top := margin
	for _, p := range lanes {
		top = c.panel(p, heading(r, p), top)
	}
	for i, line := range caption(r) {
		c.add(`<text x="%d" y="%d" fill="#57606a" font-size="11">%s</text>`, margin, top+8+16*i, escape(line))
	}
	c.add("</svg>")
	return []byte(c.b.String())
}

// heading says what a case is: the images, where they go, and the file system.
func heading(r result.Report, c result.Case) string {
	var bytes int64
	var files int
	for _, img := range r.Images[c.Image] {
		bytes, files = bytes+img.Unpacked, files+img.Files
	}
	into, ok := map[string]string{
		"docker": "Docker 29, classic image store", "docker-containerd": "Docker 29, containerd image store",
		"docker-20.10": "Docker 20.10", "kind": "a kind node",
	}[c.Target]
	if !ok {
		into = c.Target
	}
	return fmt.Sprintf("%s (%d MB in %d files) into %s, on %s", c.Image, (bytes+500_000)/1_000_000, files, into, c.Data)
}

// panels are the lanes that have figures, without the contenders that have none.
func panels(r result.Report) []result.Case {
	var all []result.Case
	for _, c := range r.Cases {
		if c.Mode != "lane" {
			continue
		}
		var series []result.Series
		for _, s := range c.Series {
			if _, ok := c.Find(s.Contender); ok {
				series = append(series, s)
			}
		}
		if c.Series = series; len(series) > 0 {
			all = append(all, c)
		}
	}
	return all
}

// canvas is a picture being drawn.
type canvas struct{ b strings.Builder }

func (c *canvas) add(format string, args ...any) { fmt.Fprintf(&c.b, format+"\n", args...) }

// panel draws a case from top down, and says where it ends.
func (c *canvas) panel(p result.Case, heading string, top int) int {
	c.add(`<text x="%d" y="%d" font-weight="600" fill="#1f2328">%s</text>`, margin, top+16, escape(heading))
	high := longest(p)
	hand, compared := p.Find("hand-written")
	y := top + title
	for _, s := range p.Series {
		length := scale(s.Wall().Seconds(), high)
		label := fmt.Sprintf("%.2f s", s.Wall().Seconds())
		if compared && s.Contender != hand.Contender {
			label += fmt.Sprintf(" · %.2f×", result.RatioOf(s, hand).Median)
		}
		least, most := spread(s)
		c.add(`<text x="%d" y="%d" text-anchor="end" fill="#1f2328">%s</text>`, left-8, y+bar-3, escape(s.Contender))
		c.add(`<rect x="%d" y="%d" width="%g" height="%d" fill="%s"/>`, left, y, length, bar, colour(s.Contender))
		c.add(`<path d="M%g %dH%g" stroke="#1f2328" stroke-width="1.5"/>`, left+scale(least, high), y+bar/2, left+scale(most, high))
		c.add(`<text x="%g" y="%d" fill="#1f2328">%s</text>`, left+max(length, scale(most, high))+6, y+bar-3, escape(label))
		y += row
	}
	return y + margin
}

// longest is the longest round of a case, in seconds.
func longest(p result.Case) float64 {
	high := 0.0
	for _, s := range p.Series {
		_, most := spread(s)
		high = max(high, most)
	}
	return high
}

// spread is the shortest and the longest round, in seconds.
func spread(s result.Series) (least, most float64) {
	least = math.Inf(1)
	for _, x := range s.Samples {
		least, most = min(least, x.Wall.Seconds()), max(most, x.Wall.Seconds())
	}
	return least, most
}

// scale is how long so many seconds are drawn.
func scale(seconds, high float64) float64 {
	if high == 0 {
		return 0
	}
	return math.Round(seconds/high*(width-left-right)*10) / 10
}

func colour(contender string) string {
	switch {
	case strings.HasPrefix(contender, "pullonce"):
		return oursColour
	case strings.HasPrefix(contender, "plain"):
		return plainColour
	default:
		return otherColour
	}
}

// alternative is the picture in words.
func alternative(lanes []result.Case) string {
	var parts []string
	for _, p := range lanes {
		var figures []string
		for _, s := range p.Series {
			figures = append(figures, fmt.Sprintf("%s %.2f", s.Contender, s.Wall().Seconds()))
		}
		parts = append(parts, fmt.Sprintf("%s into %s, on %s: %s", p.Image, p.Target, p.Data, strings.Join(figures, ", ")))
	}
	return "Seconds of a lane. " + strings.Join(parts, ". ")
}

// caption says what the figures are, and where they are from.
func caption(r result.Report) []string {
	return []string{
		fmt.Sprintf("Seconds of a lane: medians of rounds in turn, with their range; × is to hand-written. What comes from the cache comes over %s.",
			r.Settings.Line()),
		"docker-pull, crane and skopeo read from a registry on this machine, without a limit; plain-load is of an archive in page cache.",
		fmt.Sprintf("%s, %d cores, %s", r.Machine.CPU, r.Machine.Cores, r.Date.Format("2006-01-02")),
	}
}

func escape(s string) string { return html.EscapeString(s) }
