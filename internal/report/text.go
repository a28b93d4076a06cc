package report

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// columns are the headings of the table, in a terminal and in Markdown.
var columns = []string{"IMAGE", "PLATFORM", "TARGET", "FROM", "OUTCOME", "SIZE", "TIME", "ATTEMPTS"}

// cells is the row of one image under columns. An attempt count of 0 is a dash: the registry was not asked.
func (i Image) cells() []string {
	attempts := "–"
	if i.Attempts > 0 {
		attempts = strconv.Itoa(i.Attempts)
	}
	outcome := i.Outcome
	if i.Reason != "" {
		outcome += " (" + i.Reason + ")"
	}
	return []string{
		i.Name, i.Platform, cmp.Or(i.Target, "–"), string(i.Source), outcome, Bytes(i.Size), Duration(i.Elapsed), attempts,
	}
}

// WriteTable writes the report as a table for a terminal, with one closing line.
func (r Report) WriteTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	rows, keep := [][]string{columns}, []bool{}
	for _, img := range r.Images {
		rows = append(rows, img.cells())
	}
	for c := range columns {
		keep = append(keep, columnIsUsed(rows, c))
	}
	for _, row := range rows {
		var cells []string
		for c, cell := range row {
			if keep[c] {
				cells = append(cells, cell)
			}
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	for _, note := range r.Notes {
		fmt.Fprintln(w, note)
	}
	_, err := fmt.Fprintf(w, "%s: %s, %s in %s\n", r.Mode, r.Result, r.tally(), Duration(r.Elapsed))
	return err
}

// columnIsUsed says whether any row below the heading has something to say in column c.
func columnIsUsed(rows [][]string, c int) bool {
	for _, row := range rows[1:] {
		if row[c] != "–" {
			return true
		}
	}
	return len(rows) == 1
}

// tally counts the images by where they came from, as in "3 images (2 cache, 1 missing)", or "2 images for 2 targets (1
// present, 3 cache)".
func (r Report) tally() string {
	counts := map[Source]int{}
	for _, img := range r.Images {
		counts[img.Source]++
	}
	var parts []string
	for _, source := range []Source{Present, Cache, Registry, Stored, Nowhere} {
		word := string(source)
		if source == Nowhere {
			word = "missing"
		}
		if n := counts[source]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	tally := r.size()
	if len(parts) > 0 {
		tally += " (" + strings.Join(parts, ", ") + ")"
	}
	return tally
}

// size is how many images there are and, where that is more than one, for how many targets: each image then has a row for
// each.
func (r Report) size() string {
	images, targets := map[string]bool{}, map[string]bool{}
	for _, img := range r.Images {
		images[img.Reference] = true
		if img.Target != "" {
			targets[img.Target] = true
		}
	}
	n, behind := len(r.Images), ""
	if len(targets) > 1 {
		n, behind = len(images), fmt.Sprintf(" for %d targets", len(targets))
	}
	if n == 1 {
		return "1 image" + behind
	}
	return fmt.Sprintf("%d images%s", n, behind)
}

// Bytes writes a size as people read it, in decimal units: "12.3 MB".
func Bytes(n int64) string {
	const units = "kMGTP"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1000, 0
	for value >= 999.95 && unit < len(units)-1 {
		value /= 1000
		unit++
	}
	return fmt.Sprintf("%.1f %cB", value, units[unit])
}

// Duration writes a time span as people read it: "240ms", "3.2s", "2m5s".
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}
