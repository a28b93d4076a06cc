package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pullonce/pullonce/internal/report"
)

// Describe is the setting in a few lines for a person.
func (a Answer) Describe() []string {
	s, t := a.Setting, a.Setting.Throttle
	lines := []string{
		fmt.Sprintf("%s lanes × %d images of %s, starting over %s; %s with seed %d",
			Count(float64(s.Lanes)), s.Images, report.Bytes(s.Image.Size), short(s.Spread), plural(a.Runs, "run"), a.Seed),
		fmt.Sprintf("%s: %s per %s and IP, at most %s at once, from %s, %s Retry-After",
			a.title(), plural(t.Requests, "request"), short(t.Window), Count(float64(t.Burst)), plural(t.IPs, "IP"), withOrWithout(t.RetryAfter)),
		fmt.Sprintf("cache service: %s uploads and %s look-ups a minute (look-ups: assumed, no limit is published), a new entry shows up within %s",
			Count(float64(s.Cache.Uploads)), Count(float64(s.Cache.Lookups)), short(s.Cache.Lag)),
	}
	if t.Taken > 0 {
		lines = append(lines, fmt.Sprintf("others behind the same IPs have used up to %s of the burst", Percent(t.Taken)))
	}
	if p := a.Preset; p != nil {
		lines = append(lines, fmt.Sprintf("source: %s, read %s; assumed: %s", p.Source, p.Read, p.Assumed))
		if p.Exempt != "" {
			lines = append(lines, "note: "+p.Exempt)
		}
	}
	return lines
}

// title names the registry.
func (a Answer) title() string {
	switch {
	case a.Preset == nil:
		return "a registry"
	case a.changed():
		return "a registry like " + a.Preset.Title
	default:
		return a.Preset.Title
	}
}

// changed says whether the limit is no longer the preset's. From how many IPs the lanes come is the user's own business.
func (a Answer) changed() bool {
	own := a.Setting.Throttle
	own.IPs, own.Taken = a.Preset.Throttle.IPs, a.Preset.Throttle.Taken
	return own != a.Preset.Throttle
}

// Cell is one figure of the table: what it is, as JSON has it and as people read it.
type Cell struct {
	Name  string
	Value float64
	Text  string
}

// Cells are the figures of a verdict, in the order of the columns.
func (v Verdict) Cells() []Cell {
	return []Cell{
		{"lanes failed", v.Failed.Mean, fmt.Sprintf("%s of %s", Count(v.Failed.Mean), Count(float64(v.Lanes)))},
		{"run is red", v.Probability.Value, v.Probability.String()},
		{"requests", v.Requests, Count(v.Requests)},
		{"429s", v.Throttled, Count(v.Throttled)},
		{"last lane p50", v.LastLane.P50, Seconds(v.LastLane.P50)},
		{"p95", v.LastLane.P95, Seconds(v.LastLane.P95)},
		{"p100", v.LastLane.P100, Seconds(v.LastLane.P100)},
		{"from registry", v.RegistryBytes, report.Bytes(int64(math.Round(v.RegistryBytes)))},
		{"from cache", v.CacheBytes, report.Bytes(int64(math.Round(v.CacheBytes)))},
		{"cache requests", v.CacheRequests, Count(v.CacheRequests)},
		{"cache 429s", v.CacheThrottled, Count(v.CacheThrottled)},
	}
}

// WriteTable writes the answer for a terminal.
func (a Answer) WriteTable(w io.Writer) error {
	var b strings.Builder
	for _, line := range a.Describe() {
		b.WriteString(line + "\n")
	}
	b.WriteString("\n")
	tw := tabwriter.NewWriter(&b, 0, 0, 3, ' ', tabwriter.AlignRight)
	// One figure a line: the table is as wide as there are strategies, and fits a terminal.
	columns := make([][]Cell, len(a.Strategies))
	for i, v := range a.Strategies {
		columns[i] = v.Cells()
		fmt.Fprintf(tw, "\t%s", v.Strategy)
	}
	fmt.Fprintln(tw, "\t")
	for row := range columns[0] {
		fmt.Fprint(tw, columns[0][row].Name)
		for _, cells := range columns {
			fmt.Fprintf(tw, "\t%s", cells[row].Text)
		}
		fmt.Fprintln(tw, "\t")
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes the answer as one indented JSON document.
func (a Answer) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(a); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// String is the probability with its interval, as in "12% (8–17%)".
func (i Interval) String() string {
	return fmt.Sprintf("%s (%s–%s)", Percent(i.Value), strings.TrimSuffix(Percent(i.Low), "%"), Percent(i.High))
}

// Percent writes a share: whole per cents, with a decimal where that would hide something.
func Percent(share float64) string {
	percent := math.Round(share*1000) / 10
	decimals := 0
	if percent != math.Round(percent) && (percent < 10 || percent > 99) {
		decimals = 1
	}
	return strconv.FormatFloat(percent, 'f', decimals, 64) + "%"
}

// Count writes a number with thousands set apart, and with decimals where it is small and not whole.
func Count(n float64) string {
	switch whole := n == math.Round(n); {
	case !whole && n < 1:
		return strconv.FormatFloat(n, 'g', 2, 64)
	case !whole && n < 100:
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	digits := strconv.FormatInt(int64(math.Round(n)), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Seconds writes a time span given in seconds.
func Seconds(s float64) string { return report.Duration(time.Duration(s * float64(time.Second))) }

// short is a duration without what is zero: 6h, not 6h0m0s.
func short(d time.Duration) string {
	s := d.String()
	s = strings.TrimSuffix(s, "0s")
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	if s == "" || s[len(s)-1] >= '0' && s[len(s)-1] <= '9' {
		return d.String()
	}
	return s
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(float64(n)) + " " + noun + "s"
}

func withOrWithout(yes bool) string {
	if yes {
		return "with"
	}
	return "without"
}
