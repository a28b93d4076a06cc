package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxBars is how many images a timeline shows: the slowest. More would be neither readable nor quick to draw.
const maxBars = 30

// timeline is a Mermaid chart of when which image moved, where there is something to see: several images that took time,
// or an image that took several attempts.
func (r Report) timeline() string {
	var bars []Image
	retried := false
	for _, img := range r.Images {
		if img.Elapsed >= time.Millisecond {
			bars = append(bars, img)
			retried = retried || img.Attempts > 1
		}
	}
	if len(bars) < 2 && !retried {
		return ""
	}
	title := "Images over time"
	if len(bars) > maxBars {
		slices.SortStableFunc(bars, func(a, b Image) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
		bars, title = bars[:maxBars], fmt.Sprintf("The %d slowest of %d images over time", maxBars, len(bars))
	}
	slices.SortStableFunc(bars, func(a, b Image) int { return cmp.Compare(a.Started, b.Started) })
	var b strings.Builder
	fmt.Fprintf(&b, "\n```mermaid\ngantt\n  title %s\n  dateFormat HH:mm:ss.SSS\n  axisFormat %%M:%%S\n", title)
	for _, img := range bars {
		fmt.Fprintf(&b, "  %s :%s, %s, %s\n", plainText(img.label()), img.mark(), clock(img.Started), clock(img.Started+img.Elapsed))
	}
	b.WriteString("```\n")
	return b.String()
}

// label is what stands in the image's bar. It begins with a word of ours: at the start of a line Mermaid has words of its own.
func (i Image) label() string {
	label := string(i.Source) + ", " + i.Name
	switch {
	case i.Target != "" && i.Source == Present:
		label += " in " + i.Target
	case i.Target != "":
		label += " to " + i.Target
	}
	if i.Attempts > 1 {
		label += fmt.Sprintf(" after %d attempts", i.Attempts)
	}
	return label + ", " + Duration(i.Elapsed)
}

// mark is Mermaid's word for the colour of a bar.
func (i Image) mark() string {
	switch i.Source {
	case Nowhere:
		return "crit"
	case Registry:
		return "active"
	default:
		return "done"
	}
}

// clock writes a time span as a time of day, which Mermaid reads and shows in the same time zone.
func clock(d time.Duration) string {
	d = min(max(d, 0), 24*time.Hour-time.Millisecond)
	return time.Time{}.Add(d).Format("15:04:05.000")
}

// plainText leaves of a text what means nothing to Mermaid: no comment, directive, entity or end of a statement. A colon, which
// would end a label, is written as an entity.
func plainText(s string) string {
	kept := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune(" .,:/@_+-", r):
			return r
		default:
			return '?'
		}
	}, s)
	return strings.ReplaceAll(kept, ":", "#58;")
}
