package workflow_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const limit = 1 << 20

// summarize writes one summary behind what is already there and returns what the file then holds.
func summarize(t *testing.T, before, head string, rows []string, tail string) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "summary")
	require.NoError(t, os.WriteFile(path, []byte(before), 0o600))
	r, _ := newRunner(map[string]string{"GITHUB_STEP_SUMMARY": path})
	failure := r.Summary(head, rows, tail)
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	require.LessOrEqual(t, len(file), limit, "the runner would drop the summary whole")
	require.True(t, strings.HasPrefix(string(file), before))
	return strings.TrimPrefix(string(file), before), failure
}

func imageRows(n, size int) []string {
	rows := make([]string, n)
	for i := range rows {
		row := fmt.Sprintf("| registry.test/team/image-%04d:1.2.3 | cache |", i)
		rows[i] = row + strings.Repeat(" ", size-len(row)-1) + "\n"
	}
	return rows
}

func TestSummaryOfAThousandImagesFits(t *testing.T) {
	t.Parallel()
	rows := imageRows(1000, 400)
	got, err := summarize(t, "", "| image | from |\n| --- | --- |\n", rows, "\ndone\n")
	require.NoError(t, err)
	require.Equal(t, "| image | from |\n| --- | --- |\n"+strings.Join(rows, "")+"\ndone\n", got)
}

func TestSummaryExactlyAtTheLimit(t *testing.T) {
	t.Parallel()
	const head, tail = "| image | from |\n", "done\n"
	rows := imageRows(2000, 500)
	before := strings.Repeat("x", limit-len(head)-len(tail)-2000*500-1) + "\n"
	got, err := summarize(t, before, head, rows, tail)
	require.NoError(t, err)
	require.Equal(t, head+strings.Join(rows, "")+tail, got)

	got, err = summarize(t, "x"+before, head, rows, tail)
	require.NoError(t, err)
	note := "\n1 of 2000 rows are left out: a job summary holds 1024 KiB.\n\n"
	require.Equal(t, head+strings.Join(rows[:1999], "")+note+tail, got)
}

func TestSummaryLeavesOutNoMoreThanItMust(t *testing.T) {
	t.Parallel()
	rows := imageRows(5000, 300)
	got, err := summarize(t, "", "head\n", rows, "tail\n")
	require.NoError(t, err)
	kept := strings.Count(got, "| cache |")
	require.Contains(t, got, fmt.Sprintf("\n\n%d of 5000 rows are left out: ", 5000-kept))
	require.True(t, strings.HasSuffix(got, "\n\ntail\n"))
	require.Greater(t, len(got)+300, limit, "one more row would have fitted")
}

func TestSummaryWithoutRoom(t *testing.T) {
	t.Parallel()
	rows := imageRows(10, 100)
	tests := []struct {
		name string
		room int
		want string
	}{
		{"rows go first", 120, "head\nmore\n\n10 of 10 rows are left out: a job summary holds 1024 KiB.\n\ntail\n"},
		{"then the tail", 72, "head\nmore\n\n10 of 10 rows are left out: a job summary holds 1024 KiB.\n\n"},
		{"then the head's end", 55, "head\n\nThe rest is left out: the job summary is full.\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := summarize(t, strings.Repeat("x", limit-tt.room-1)+"\n", "head\nmore\n", rows, "tail\n")
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	for _, room := range []int{0, 10} {
		got, err := summarize(t, strings.Repeat("x", limit-room-1)+"\n", "head\n", rows, "tail\n")
		require.EqualError(t, err, "writing the job summary: no room is left in it")
		require.Empty(t, got)
	}
}

func TestSummaryPartsAreWholeLines(t *testing.T) {
	t.Parallel()
	got, err := summarize(t, "earlier", "head", []string{"a", "b\r\n"}, "")
	require.NoError(t, err)
	require.Equal(t, "\nhead\na\nb\n", got)
}
