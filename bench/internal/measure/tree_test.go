//go:build linux

package measure

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeProc is a /proc with processes as "pid (name) S parent … utime stime cutime cstime".
func fakeProc(t *testing.T, stats map[int]string) string {
	t.Helper()
	dir := t.TempDir()
	for pid, stat := range stats {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, strconv.Itoa(pid)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(pid), "stat"), []byte(stat), 0o644))
	}
	return dir
}

func TestTreeCPUAddsUpDescendants(t *testing.T) {
	t.Parallel()
	proc := fakeProc(t, map[int]string{
		10: "10 (dockerd) S 1 0 0 0 0 0 0 0 0 0 1 2 3 4 20 0",
		11: "11 (a (b) c) S 10 0 0 0 0 0 0 0 0 0 10 0 0 0 20 0",
		12: "12 (d) S 11 0 0 0 0 0 0 0 0 0 100 0 0 0 20 0",
		13: "13 (other) S 1 0 0 0 0 0 0 0 0 0 1000 0 0 0 20 0",
	})
	total, err := TreeCPU(proc, 10, 12)
	require.NoError(t, err)
	require.Equal(t, 120*tick, total, "each once, and nobody else")
}

func TestTreeCPUOfWhatIsNoProcess(t *testing.T) {
	t.Parallel()
	for name, stat := range map[string]string{"empty": "", "short": "10 (a) S 1", "no number": "10 (a) S x 0 0 0 0 0 0 0 0 0 1 2 3 4 20"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := TreeCPU(fakeProc(t, map[int]string{10: stat}), 10)
			require.ErrorContains(t, err, "reading ")
		})
	}
}

func TestBusyCPUIsAllButIdleness(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stat := filepath.Join(dir, "stat")
	require.NoError(t, os.WriteFile(stat, []byte("cpu  1 2 4 1000 1000 8 16 32 1000 1000\ncpu0 9 9 9\n"), 0o644))
	busy, err := BusyCPU(dir)
	require.NoError(t, err)
	require.Equal(t, 63*tick, busy)
	require.NoError(t, os.WriteFile(stat, []byte("cpu  x\n"), 0o644))
	_, err = BusyCPU(dir)
	require.ErrorContains(t, err, "no such line")
}

func TestPeakIsTheSum(t *testing.T) {
	t.Parallel()
	dir := fakeProc(t, map[int]string{7: "", 8: ""})
	for pid, hwm := range map[int]string{7: "100", 8: "24"} {
		text := "Name:\tx\nVmPeak:\t 9 kB\nVmHWM:\t   " + hwm + " kB\nVmRSS:\t 1 kB\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(pid), "status"), []byte(text), 0o644))
	}
	peak, err := Peak(dir, 7, 8)
	require.NoError(t, err)
	require.Equal(t, int64(124<<10), peak)
	require.NoError(t, ResetPeak(dir, 7, 8))
}

// A program's processor time, memory and words are its own and those of what it started.
func TestRunMeasuresWhatItStarted(t *testing.T) {
	t.Parallel()
	r := Runner{Child: child(t), Dir: t.TempDir()}
	script := `x=$(head -c 30000000 /dev/zero | tr '\0' a); i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done`
	u, out, err := r.Run(t.Context(), Command{Argv: []string{"/bin/sh", "-c", script}, Env: os.Environ(), Dir: t.TempDir()})
	require.NoError(t, err)
	require.Equal(t, "done\n", out)
	require.Greater(t, u.PeakRSS, int64(30_000_000))
	require.Greater(t, u.CPU(), 10*time.Millisecond)
	require.GreaterOrEqual(t, u.Wall, u.CPU()/time.Duration(8))
}

// What this process has in use is not counted for a program that it has run.
func TestRunCountsNotItsOwnMemory(t *testing.T) {
	t.Parallel()
	own := make([]byte, 200<<20)
	for i := 0; i < len(own); i += 4096 {
		own[i] = 1
	}
	r := Runner{Child: child(t), Dir: t.TempDir()}
	u, _, err := r.Run(t.Context(), Command{Argv: []string{"/bin/true"}, Dir: t.TempDir()})
	require.NoError(t, err)
	require.Less(t, u.PeakRSS, int64(100<<20))
	require.NotZero(t, own[0])
}

func TestRunTellsWhatFailed(t *testing.T) {
	t.Parallel()
	r := Runner{Child: child(t), Dir: t.TempDir()}
	_, _, err := r.Run(t.Context(), Command{Argv: []string{"/bin/sh", "-c", "echo out; echo no room >&2; exit 7"}, Dir: t.TempDir()})
	require.EqualError(t, err, "running /bin/sh -c echo out; echo no room >&2; exit 7: exit status 7\nout\nno room")
	_, _, err = r.Run(t.Context(), Command{Argv: []string{"/nowhere"}, Dir: t.TempDir()})
	require.ErrorContains(t, err, "no such file")
	_, _, err = r.Run(t.Context(), Command{Argv: []string{"/bin/true"}, Stdin: "/nowhere", Dir: t.TempDir()})
	require.ErrorContains(t, err, "opening /nowhere")
}

// child is this test binary as the process in between.
func child(t *testing.T) []string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return []string{self, childMode}
}

const childMode = "measure-child"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == childMode {
		if err := Child(os.Args[2], os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
