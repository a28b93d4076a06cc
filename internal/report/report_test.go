package report_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/goldentest"
	"github.com/pullonce/pullonce/internal/report"
)

// sample has one image of each source, and problems with and without a place.
func sample() report.Report {
	return report.Report{
		Mode: "load", Result: report.Degraded, Elapsed: 4200 * time.Millisecond,
		Images: []report.Image{
			{Name: "redis:7", Platform: "linux/amd64", Target: "docker", Source: report.Cache, Outcome: "loaded", Size: 43_100_000, Started: 40 * time.Millisecond, Elapsed: 1250 * time.Millisecond},
			{Name: "postgres:17", Platform: "linux/amd64", Target: "docker", Source: report.Registry, Outcome: "loaded", Size: 999_960, Started: 1300 * time.Millisecond, Elapsed: 61 * time.Second, Attempts: 3},
			{Name: "a|b", Platform: "linux/amd64", Target: "docker", Source: report.Nowhere, Outcome: "skipped", Reason: "target unavailable"},
			{Name: "nginx:1", Platform: "linux/amd64", Target: "docker", Source: report.Present, Outcome: "present", Size: 999, Elapsed: 12 * time.Millisecond},
		},
		Problems: []report.Problem{
			{Severity: report.Warning, Kind: "miss", Image: "postgres:17", Message: "postgres:17: not in the store", Hint: "run prime"},
			{Severity: report.Error, Kind: "reference", Message: "<b>no</b> *reference*", File: "images.txt", Line: 3, Column: 1},
		},
	}
}

func TestTheReportReadsTheSameInEveryForm(t *testing.T) {
	t.Parallel()
	for name, render := range map[string]func(report.Report, *strings.Builder) error{
		"report.txt":  func(r report.Report, b *strings.Builder) error { return r.WriteTable(b) },
		"report.json": func(r report.Report, b *strings.Builder) error { return r.WriteJSON(b) },
		"report.md": func(r report.Report, b *strings.Builder) error {
			md := r.Markdown()
			b.WriteString(md.Head + strings.Join(md.Rows, "") + md.Tail)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got strings.Builder
			require.NoError(t, render(sample(), &got))
			golden := filepath.Join("testdata", name)
			goldentest.Equal(t, golden, got.String())
		})
	}
}

func TestAnEmptyReportHasListsAndNoTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	require.NoError(t, report.Report{Mode: "load", Result: report.Success}.WriteJSON(&b))
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(b.String()), &got))
	require.Equal(t, []any{}, got["images"])
	require.Equal(t, []any{}, got["problems"])
	require.NotContains(t, report.Report{Mode: "load"}.Markdown().Head, "IMAGE")
}

// timelineOf is the lines of the timeline in a report of these images.
func timelineOf(images ...report.Image) []string {
	_, chart, ok := strings.Cut(report.Report{Images: images}.Markdown().Tail, "```mermaid\n")
	if !ok {
		return nil
	}
	return strings.Split(chart, "\n")
}

func TestATimelineStandsWhereThereIsSomethingToSee(t *testing.T) {
	t.Parallel()
	moved := report.Image{Name: "a:1", Source: report.Cache, Elapsed: time.Second}
	require.Empty(t, timelineOf())
	require.Empty(t, timelineOf(moved), "one image at the first attempt")
	require.Empty(t, timelineOf(moved, report.Image{Name: "b:1", Source: report.Nowhere}), "nothing was done for the other")
	require.NotEmpty(t, timelineOf(moved, moved))
	moved.Attempts = 2
	require.NotEmpty(t, timelineOf(moved))
}

func TestATimelineKeepsForeignTextToItsPlace(t *testing.T) {
	t.Parallel()
	hostile := report.Image{Name: "a:1;%%{init}\n```\n#<b>", Target: "kind:ci", Source: report.Registry, Elapsed: time.Second, Attempts: 2}
	require.Equal(t, []string{
		"gantt", "  title Images over time", "  dateFormat HH:mm:ss.SSS", "  axisFormat %M:%S",
		"  registry, a#58;1????init????????b? to kind#58;ci after 2 attempts, 1s :active, 00:00:00.000, 00:00:01.000", "```", "",
	}, timelineOf(hostile))
}

func TestATimelineOfManyImagesShowsTheSlowest(t *testing.T) {
	t.Parallel()
	var images []report.Image
	for i := range 1000 {
		images = append(images, report.Image{Name: "app", Source: report.Cache, Started: time.Duration(1000-i) * time.Second, Elapsed: time.Duration(i+1) * time.Second})
	}
	got := timelineOf(images...)
	require.Contains(t, got, "  title The 30 slowest of 1000 images over time")
	require.Len(t, got, 4+30+2)
	require.Equal(t, "  cache, app, 16m40s :done, 00:00:01.000, 00:16:41.000", got[4], "in the order in which they began")
}

func TestBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_949: "999.9 kB", 999_951: "1.0 MB", 1_440_000_000: "1.4 GB", 2_000_000_000_000: "2.0 TB",
	} {
		require.Equal(t, want, report.Bytes(n))
	}
}

func TestLineKeepsForeignTextToOneLine(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a b c d", report.Line(errors.New("a\r\nb\u2028c\x1b\n\nd")))
	long := report.Line(errors.New(strings.Repeat("é", 2000)))
	require.LessOrEqual(t, len(long), 1004)
	require.True(t, strings.HasSuffix(long, "é…"), "cut between characters")
}

func TestProblemsAreCountedPastTheFirstFifty(t *testing.T) {
	t.Parallel()
	md := report.Report{Problems: make([]report.Problem, 60)}.Markdown()
	require.Contains(t, md.Tail, "- and 10 more: see the log\n")
}

func TestLogKeepsItsOrder(t *testing.T) {
	t.Parallel()
	var log report.Log
	log.Add(report.Problem{Message: "first"})
	log.Add(report.Problem{Message: "second"})
	require.Equal(t, "first", log.Problems()[0].Message)
	require.Len(t, log.Problems(), 2)
}

func TestTheTallyTellsImagesFromTargets(t *testing.T) {
	t.Parallel()
	row := func(ref, on, target string, source report.Source) report.Image {
		return report.Image{Reference: ref, Platform: on, Target: target, Source: source}
	}
	for want, images := range map[string][]report.Image{
		"0 images": nil,
		"1 image for 2 targets (1 present, 1 missing)": {
			row("a:1", "linux/amd64", "docker", report.Present), row("a:1", "linux/amd64", "kind", report.Nowhere),
		},
		"2 images for 2 targets (2 present, 2 cache)": {
			row("a:1", "linux/amd64", "docker", report.Present), row("a:1", "linux/amd64", "none", report.Cache),
			row("b:1", "linux/amd64", "docker", report.Present), row("b:1", "linux/amd64", "none", report.Cache),
		},
		"2 images (2 registry)": { // in prime, an image for each platform
			row("a:1", "linux/amd64", "", report.Registry), row("a:1", "linux/arm64", "", report.Registry),
		},
	} {
		var b strings.Builder
		require.NoError(t, report.Report{Mode: "load", Result: report.Success, Images: images}.WriteTable(&b))
		require.Contains(t, b.String(), "load: success, "+want+" in ")
	}
}
