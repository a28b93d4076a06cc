//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/regtest"
	"github.com/pullonce/pullonce/internal/simulate"
	"github.com/pullonce/pullonce/internal/simulate/simulatetest"
)

// TestTheSimulationAgreesWithReality runs 200 lanes over sockets, from as many addresses of the loopback net as the setting
// has IPs, and holds the simulation of the same lanes to what the registry saw.
func TestTheSimulationAgreesWithReality(t *testing.T) {
	gate(t)
	network := 0
	for name, check := range simulatetest.Checks() {
		network++
		addresses := fmt.Sprintf("127.77.%d.", network)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const seed = 11
			field := simulatetest.New(check.Setting)
			server, err := field.Registry.Start(regtest.Listen{})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, server.Close()) })
			transports := make([]*http.Transport, check.Setting.Throttle.IPs)
			for i := range transports {
				transports[i] = regtest.Dial(addresses + strconv.Itoa(i+1))
				transports[i].MaxIdleConnsPerHost = simulatetest.Lanes
				t.Cleanup(transports[i].CloseIdleConnections)
			}
			real := field.Run(t.Context(), check.Strategy, seed, server.Host, func(ip int) http.RoundTripper { return transports[ip] })
			compared := simulatetest.Compare(t.Context(), name, check, seed, real)
			t.Log(compared)
			require.NoError(t, compared.Check())
		})
	}
}

// TestTenThousandLanesAreQuickAndSmall counts processor time where the machine is busy with something else.
func TestTenThousandLanesAreQuickAndSmall(t *testing.T) {
	gate(t)
	cmd := pullonce(t, nil).command(t, "simulate", "--lanes", "10000", "--images", "5")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	require.NoError(t, cmd.Start())
	peak := peakMemory(cmd.Process.Pid)
	require.NoError(t, cmd.Wait(), out.String())
	elapsed, used := time.Since(began), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	megabytes := <-peak >> 10
	t.Logf("10,000 lanes of 5 images: %s, %s of processor time, %d MB", elapsed, used, megabytes)
	require.Less(t, min(elapsed, used), 5*time.Second)
	require.Positive(t, megabytes)
	require.Less(t, megabytes, 200)
}

// peakMemory follows a process to its end and gives the most that it held in memory, in KiB. A child's resource usage
// does not tell: it begins with what the parent held when it was forked.
func peakMemory(pid int) <-chan int {
	peak := make(chan int, 1)
	go func() {
		most := 0
		for {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, rest, alive := strings.Cut(string(status), "VmHWM:")
			if err != nil || !alive { // a process that has ended has no memory
				peak <- most
				return
			}
			var now int
			_, _ = fmt.Sscan(rest, &now)
			most = max(most, now)
			time.Sleep(time.Millisecond)
		}
	}()
	return peak
}

// TestThePageInABrowser opens the page as people do: wide and narrow, light and dark, by keyboard and by screen reader.
func TestThePageInABrowser(t *testing.T) {
	gate(t)
	for _, chromium := range browsers() {
		dir := tempDir(t)
		page := filepath.Join(dir, "page.html")
		out, err := pullonce(t, nil).command(t, "simulate", "--lanes", "256", "--preset", "quay", "--html", page, "--json").Output()
		require.NoError(t, err)
		var answer simulate.Answer
		require.NoError(t, json.Unmarshal(out, &answer))

		b := openBrowser(t, chromium)
		b.as(1000, "light")
		b.open(page)
		require.Empty(t, b.troubles(page), "neither console nor network have anything to say")
		requireFigures(t, b, answer)
		requireColours(t, b.screenshot(dir, "light"), 0xb3261e, 0x8a5300, 0x00695c, 0xffffff)
		requireNames(t, b)
		requireKeyboard(t, b)

		b.as(360, "dark")
		var wide, view int
		b.eval("document.documentElement.scrollWidth", &wide)
		b.eval("window.innerWidth", &view)
		require.LessOrEqual(t, wide, view, "a phone has nothing to scroll sideways but what is in a frame")
		require.Equal(t, 360, view)
		requireColours(t, b.screenshot(dir, "dark-phone"), 0xff8a80, 0xffc965, 0x5be3c6, 0x12161b)
		require.Empty(t, b.troubles(page))
		keep(t, dir, "light.png", "dark-phone.png")
	}
}

// requireFigures holds what stands in the page to the JSON.
func requireFigures(t *testing.T, b *browser, answer simulate.Answer) {
	t.Helper()
	var shown map[string][2]string
	b.eval(`Object.fromEntries([...document.querySelectorAll("data")].map(d => [d.dataset.key, [d.value, d.innerText || d.textContent]]))`, &shown)
	for _, verdict := range answer.Strategies {
		for _, cell := range verdict.Cells() {
			key := string(verdict.Strategy) + "/" + cell.Name
			require.Equal(t, [2]string{strconv.FormatFloat(cell.Value, 'f', -1, 64), cell.Text}, shown[key], key)
			delete(shown, key)
		}
	}
	for _, width := range answer.Widths {
		for _, s := range width.Strategies {
			key := fmt.Sprintf("width/%d/%s/failed", width.Lanes, s.Strategy)
			require.Equal(t, strconv.FormatFloat(s.Failed, 'f', -1, 64), shown[key][0], key)
		}
	}
	for _, timeline := range answer.Timelines {
		attempts, last := 0, 0.0
		for _, n := range timeline.Attempts {
			attempts += n
		}
		for key, figure := range shown {
			if match, _ := filepath.Match("attempts/*/"+string(timeline.Strategy), key); match {
				value, err := strconv.ParseFloat(figure[0], 64)
				require.NoError(t, err)
				last = max(last, value)
			}
		}
		require.Equal(t, float64(attempts), last, "attempts of %s in the end", timeline.Strategy)
	}
}

// requireColours looks for each colour in the picture.
func requireColours(t *testing.T, picture image.Image, colours ...uint32) {
	t.Helper()
	seen := map[color.RGBA]int{}
	bounds := picture.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			seen[color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)]++
		}
	}
	for _, c := range colours {
		require.Greater(t, seen[color.RGBA{uint8(c >> 16), uint8(c >> 8), uint8(c), 255}], 100, "colour %06x", c)
	}
}

// requireNames reads the page as a screen reader does: what is in the accessibility tree, by role and name.
func requireNames(t *testing.T, b *browser) {
	t.Helper()
	var tree struct {
		Nodes []struct {
			Role, Name struct{ Value string }
			Ignored    bool
		}
	}
	b.call("Accessibility.getFullAXTree", nil, &tree)
	names := map[string][]string{}
	for _, node := range tree.Nodes {
		if !node.Ignored {
			names[node.Role.Value] = append(names[node.Role.Value], node.Name.Value)
		}
	}
	require.Contains(t, names["heading"], "256 lanes × 5 images against a throttle")
	require.Len(t, names["heading"], 6)
	pictures := append(names["image"], names["img"]...)
	require.Len(t, pictures, 3, "%v", names)
	for _, name := range pictures {
		require.Contains(t, name, "The table below has the figures.")
	}
	require.Len(t, names["main"], 1)
	require.Contains(t, names["rowheader"], "lanes failed")
	require.Contains(t, names["columnheader"], "pull-deadline")
}

// requireKeyboard goes through the page by Tab, and opens what can be opened by Enter.
func requireKeyboard(t *testing.T, b *browser) {
	t.Helper()
	var stops []string
	for range 5 {
		b.press("Tab", 9)
		var stop string
		b.eval(`document.activeElement.tagName + " " + getComputedStyle(document.activeElement).outlineStyle`, &stop)
		stops = append(stops, stop)
	}
	require.Equal(t, []string{"A solid", "DIV solid", "SUMMARY solid", "SUMMARY solid", "SUMMARY solid"}, stops)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}, nil)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}, nil)
	var open int
	b.eval(`document.querySelectorAll("details[open]").length`, &open)
	require.Equal(t, 1, open)
	b.eval(`document.querySelectorAll("details").forEach(d => d.open = false), 0`, &open)
}

// keep copies pictures to PULLONCE_E2E_SHOTS, for people to look at, where that is set.
func keep(t *testing.T, dir string, names ...string) {
	t.Helper()
	to := os.Getenv("PULLONCE_E2E_SHOTS")
	if to == "" {
		return
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, name), data, 0o644))
	}
}
