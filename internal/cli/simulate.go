package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pullonce/pullonce/internal/simulate"
	"github.com/pullonce/pullonce/internal/simulate/page"
)

// simulateCommand shows what a matrix does against a throttle, in virtual time. What is left out of the throttle is the
// preset's.
type simulateCommand struct {
	Lanes         int      `default:"100" help:"Width of the matrix, up to 100000."`
	Images        int      `default:"5" help:"Images that each lane needs."`
	Preset        string   `default:"hub" enum:"hub,hub-authenticated,ecr-public,ghcr,quay" help:"The limit of a registry: hub, hub-authenticated, ecr-public, ghcr or quay."`
	Rate          *int     `placeholder:"N" help:"Requests in a window, for each IP."`
	Window        wait     `placeholder:"TIME" help:"The window, as in 1s, 1m or 6h."`
	Burst         *int     `placeholder:"N" help:"Requests at once, at most."`
	EgressIPs     *int     `name:"egress-ips" placeholder:"N" help:"Addresses that the lanes come from."`
	RetryAfter    string   `default:"preset" enum:"preset,yes,no" help:"Whether a refusal says how long to wait: yes, no or preset."`
	Taken         string   `default:"0%" placeholder:"SHARE" help:"How much of the burst others behind the same IPs have used up, at most; each IP draws its own."`
	ImageSize     string   `default:"150MB" help:"Size of an image, compressed."`
	Layers        int      `default:"6" help:"Layers of an image."`
	Bandwidth     string   `default:"50MB" help:"What a job moves in a second."`
	Latency       span     `default:"50ms" help:"How long a request takes, give or take a half."`
	Spread        span     `default:"10s" help:"The time over which the lanes start."`
	Uploads       int      `default:"200" help:"Uploads a minute that the cache service takes."`
	Lookups       int      `name:"look-ups" default:"1500" help:"Look-ups a minute that the cache service takes; nobody publishes it."`
	VisibilityLag span     `default:"10s" help:"How long a new entry takes to show up, at most."`
	LaneTimeout   wait     `default:"3m" help:"How long a lane's pull may wait and try again."`
	PrimeTimeout  wait     `default:"10m" help:"How long prime's pull may wait and try again."`
	Strategies    []string `default:"pull,pull-deadline,prime" help:"What is compared: pull, pull-deadline and prime."`
	Seed          uint64   `default:"1" help:"The first of the seeds."`
	Runs          *int     `placeholder:"N" help:"Runs for each probability, each with its own seed; default: as many as take a second or two, 10 to 400."`
	HTML          string   `name:"html" placeholder:"FILE" help:"Write a page with charts, complete in one file."`
	JSON          bool     `name:"json" action:"-" help:"Print the answer as JSON."`
}

func (c *simulateCommand) run(ctx context.Context, s *session) (ExitCode, error) {
	options, err := c.options()
	if err != nil {
		return 0, err
	}
	if err := c.checkPage(); err != nil {
		return 0, err
	}
	answer, err := simulate.Run(ctx, options)
	if err != nil {
		return 0, err
	}
	if c.HTML != "" {
		err := writeWhole(c.HTML, func(w io.Writer) error { return page.Write(w, answer) })
		if errors.Is(err, fs.ErrPermission) {
			return 0, usagef("name a file in a folder that can be written", "writing the page %q: %w", c.HTML, fs.ErrPermission)
		}
		if err != nil {
			return 0, fmt.Errorf("writing the page: %w", err)
		}
	}
	if c.JSON {
		return ExitOK, s.printJSON(answer.WriteJSON)
	}
	return ExitOK, s.print(answer.WriteTable)
}

// checkPage refuses a path where no page can be, before anybody waits for it.
func (c *simulateCommand) checkPage() error {
	if c.HTML == "" {
		return nil
	}
	if info, err := os.Stat(c.HTML); err == nil && info.IsDir() {
		return usagef("name a file in it", "writing the page %q: it is a folder", c.HTML)
	}
	folder := filepath.Dir(c.HTML)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return usagef("name a file in a folder that is there", "writing the page %q: no such folder %q", c.HTML, folder)
	}
	return nil
}

// options are the flags as the simulation wants them, checked.
func (c *simulateCommand) options() (simulate.Options, error) {
	preset, ok := simulate.FindPreset(c.Preset)
	if !ok {
		return simulate.Options{}, usagef("see: pullonce simulate --help", "unknown preset %q", c.Preset)
	}
	setting, err := c.setting(preset.Throttle)
	if err != nil {
		return simulate.Options{}, err
	}
	if err := setting.Validate(); err != nil {
		return simulate.Options{}, usagef("see: pullonce simulate --help", "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	o := simulate.Options{Setting: setting, Preset: &preset, Seed: c.Seed}
	if c.Runs != nil {
		if o.Runs = *c.Runs; o.Runs < 1 || o.Runs > maxRuns {
			return simulate.Options{}, usagef(fmt.Sprintf("take 1 to %d, or leave it out", maxRuns), "%d runs are out of range", o.Runs)
		}
	}
	for _, name := range c.Strategies {
		strategy, err := simulate.ParseStrategy(name)
		if err != nil {
			return simulate.Options{}, usagef("strategies are pull, pull-deadline and prime", "%s", err)
		}
		o.Strategies = append(o.Strategies, strategy)
	}
	return o, nil
}

// maxRuns bounds the work that can be asked for.
const maxRuns = 100_000

// setting is the matrix, against a throttle that the flags change.
func (c *simulateCommand) setting(t simulate.Throttle) (simulate.Setting, error) {
	size, err := parseBytes(c.ImageSize)
	if err != nil {
		return simulate.Setting{}, err
	}
	bandwidth, err := parseBytes(c.Bandwidth)
	if err != nil {
		return simulate.Setting{}, err
	}
	if t.Taken, err = parseShare(c.Taken); err != nil {
		return simulate.Setting{}, err
	}
	c.change(&t)
	return simulate.Setting{
		Lanes: c.Lanes, Images: c.Images, Image: simulate.Image{Size: size, Layers: c.Layers}, Throttle: t,
		Cache:   simulate.Cache{Uploads: c.Uploads, Lookups: c.Lookups, Lag: time.Duration(c.VisibilityLag)},
		Latency: time.Duration(c.Latency), Bandwidth: bandwidth, Spread: time.Duration(c.Spread),
		LaneTimeout: time.Duration(c.LaneTimeout), PrimeTimeout: time.Duration(c.PrimeTimeout),
	}, nil
}

// change puts what was given in place of the preset's. A rate without a burst is its own burst.
func (c *simulateCommand) change(t *simulate.Throttle) {
	if c.Rate != nil {
		t.Requests, t.Burst = *c.Rate, *c.Rate
	}
	if c.Window != 0 {
		t.Window = time.Duration(c.Window)
	}
	if c.Burst != nil {
		t.Burst = *c.Burst
	}
	if c.EgressIPs != nil {
		t.IPs = *c.EgressIPs
	}
	if c.RetryAfter != "preset" {
		t.RetryAfter = c.RetryAfter == "yes"
	}
}

// parseShare reads "40%" or "0.4".
func parseShare(raw string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(raw), "%")
	share, err := strconv.ParseFloat(number, 64)
	if percent {
		share /= 100
	}
	if err != nil || share < 0 || share > 1 {
		return 0, usagef("write it as in 40%", "invalid share %q", raw)
	}
	return share, nil
}
