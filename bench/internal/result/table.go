package result

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Write writes the report for people.
func (r Report) Write(w io.Writer) error {
	t := &page{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	r.head(t)
	for _, c := range r.Cases {
		c.write(t)
	}
	writeChecks(t, r.Checks)
	return cmp.Or(t.err, t.w.Flush())
}

// page keeps the first error of many lines.
type page struct {
	w   *tabwriter.Writer
	err error
}

// row writes a row of cells.
func (p *page) row(cells ...string) { p.line("%s", strings.Join(cells, "\t")) }

func (p *page) line(format string, args ...any) {
	if _, err := fmt.Fprintf(p.w, format+"\n", args...); p.err == nil {
		p.err = err
	}
}

func (r Report) head(p *page) {
	m := r.Machine
	p.line("%s, %s, Linux %s; %s, %d cores, %.1f GB; other work took %.0f %% of the cores meanwhile", r.Date.Format(time.DateTime+" MST"), m.System, m.Kernel, m.CPU, m.Cores,
		float64(m.Memory)/1e9, 100*r.Others())
	for _, data := range slices.Sorted(maps.Keys(m.FileSystems)) {
		p.line("%s is %s", data, m.FileSystems[data])
	}
	p.line("line to the store: %s; contenders in turn; figures are medians of rounds, ratios those of medians, with the least and the most of a round",
		r.Settings.Line())
	var programs []string
	for _, name := range slices.Sorted(maps.Keys(r.Programs)) {
		programs = append(programs, name+": "+r.Programs[name])
	}
	p.line("%s", strings.Join(programs, "; "))
	for _, name := range slices.Sorted(maps.Keys(r.Images)) {
		for _, img := range r.Images[name] {
			p.line("image %s: %s, %s: %.1f MB in %d files, %d layers, gzipped %.1f MB", name, img.Repository, img.Manifest, float64(img.Unpacked)/1e6, img.Files,
				img.Layers, float64(img.Packed)/1e6)
		}
	}
}

// Line is the line to the store in words.
func (s Settings) Line() string {
	width, served := "without bound", "Azurite on these cores"
	if s.Bandwidth > 0 {
		width = fmt.Sprintf("%d MB/s", s.Bandwidth/1e6)
	}
	if s.Kept {
		served = "memory"
	}
	return fmt.Sprintf("%s, %s a request, blobs from %s", width, s.Latency, served)
}

func (c Case) write(p *page) {
	p.line("")
	p.line("%s: %d rounds", c.where(), c.rounds())
	p.row("contender", "seconds", "to hand-written", "CPU s", "daemon CPU s", "store CPU s", "peak MiB", "daemon MiB", "store MB", "requests: store", "registry")
	hand, compared := c.Find(byHand)
	for _, s := range c.Series {
		if s.Problem != "" {
			first, _, _ := strings.Cut(s.Problem, "\n")
			p.row(s.Contender, "failed: "+first)
			continue
		}
		if len(s.Samples) == 0 {
			p.row(s.Contender, "not measured: the run was ended before")
			continue
		}
		ratio := "–"
		if compared {
			r := RatioOf(s, hand)
			ratio = fmt.Sprintf("%.2f (%.2f–%.2f)", r.Median, r.Least, r.Most)
		}
		p.row(s.Contender, seconds(s.Wall()), ratio,
			seconds(Of(s, func(x Sample) time.Duration { return x.CPU() })), seconds(Of(s, func(x Sample) time.Duration { return x.DaemonCPU })),
			seconds(Of(s, func(x Sample) time.Duration { return x.StoreCPU })),
			fmt.Sprintf("%.0f", float64(s.Peak())/(1<<20)), fmt.Sprintf("%.0f", float64(Of(s, func(x Sample) int64 { return x.DaemonPeak }))/(1<<20)),
			fmt.Sprintf("%.1f", float64(Of(s, func(x Sample) int64 { return x.Store.Down + x.Store.Up }))/1e6),
			fmt.Sprint(Of(s, func(x Sample) int64 { return x.Store.Requests })), fmt.Sprint(Of(s, func(x Sample) int64 { return x.Registry.Requests })))
	}
}

// rounds is how often those who came furthest did the job.
func (c Case) rounds() int {
	most := 0
	for _, s := range c.Series {
		most = max(most, len(s.Samples))
	}
	return most
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

func writeChecks(p *page, checks []Check) {
	if len(checks) == 0 {
		return
	}
	p.line("")
	p.row("limit", "", "figure", "at most", "")
	for _, c := range checks {
		value := fmt.Sprintf("%.2f%s", c.Value, c.Unit)
		if c.Problem != "" {
			value = c.Problem
		}
		p.row(c.Where, c.Claim, value, fmt.Sprintf("%.2f%s", c.Limit, c.Unit), c.Verdict())
	}
}
