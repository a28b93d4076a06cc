package result

import (
	"fmt"
	"slices"
	"time"
)

// Check is a limit that a figure is held to.
type Check struct {
	Claim string  `json:"claim"`
	Where string  `json:"where"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	// Unit is that of both; a ratio has none.
	Unit string `json:"unit,omitempty"`
	Met  bool   `json:"met"`
	// Problem says why there is no value; such a check is not met.
	Problem string `json:"problem,omitempty"`
}

// Verdict is whether it is met, in words.
func (c Check) Verdict() string {
	if c.Met {
		return "met"
	}
	return "NOT MET"
}

// limits are the highest ratios of a lane of ours to the hand-written one, by target; of the set of four there is one for all.
func limits(contender, image, target string) (float64, bool) {
	if image == "set" {
		limit, ok := map[string]float64{exact: 0.70, zstd: 0.50}[contender]
		return limit, ok
	}
	if image != "M" && image != "L" {
		return 0, false
	}
	limit, ok := map[[2]string]float64{
		{exact, "docker"}: 0.90, {zstd, "docker"}: 0.85,
		{exact, "docker-containerd"}: 0.85, {zstd, "docker-containerd"}: 0.60,
		{exact, "kind"}: 0.75, {zstd, "kind"}: 0.50,
	}[[2]string{contender, target}]
	return limit, ok
}

// The contenders that limits speak of, as they call themselves.
const (
	byHand    = "hand-written"
	crane     = "crane"
	exact     = "pullonce"
	zstd      = "pullonce-zstd"
	plain     = "plain-load"
	plainZstd = "plain-load-zstd"
)

const (
	// maxMemory is the most that a process of ours may have in use, in MiB.
	maxMemory = 96
	// maxWritten is the most that a lane of ours may write to disk, in MB: the step's outputs and its summary.
	maxWritten = 0.1
	// maxShare is the most that a lane may take beyond the transfer and the target's own load.
	maxShare = 500 * time.Millisecond
)

// Judge holds a report to every limit that there are figures for.
func Judge(r Report) []Check {
	var checks []Check
	for _, c := range r.Cases {
		switch c.Mode {
		case "lane":
			checks = append(checks, c.lane(r.Settings)...)
		case "lane-present":
			checks = append(checks, c.seconds(exact, "a lane whose images are all there", 0.3)...)
		case "prime-cold":
			checks = append(checks, c.cold()...)
		case "prime-warm":
			checks = append(checks, c.warm()...)
		}
		checks = append(checks, c.memory()...)
	}
	return checks
}

// where names the case.
func (c Case) where() string {
	return fmt.Sprintf("%s %s, %s on %s", c.Mode, c.Image, c.Target, c.Data)
}

// took says whether a contender took part.
func (c Case) took(name string) bool {
	for _, s := range c.Series {
		if s.Contender == name {
			return true
		}
	}
	return false
}

// both are the series of two contenders; a problem of either is one of the check. Unless both took part there is no check.
func (c Case) both(a, b string, check Check, value func(a, b Series) float64) []Check {
	if !c.took(a) || !c.took(b) {
		return nil
	}
	check.Where = c.where()
	first, okFirst := c.Find(a)
	second, okSecond := c.Find(b)
	if !okFirst || !okSecond {
		check.Problem = "there are no figures of both"
		return []Check{check}
	}
	check.Value = value(first, second)
	check.Met = check.Value <= check.Limit
	return []Check{check}
}

func (c Case) ratio(a, b string, limit float64) []Check {
	return c.both(a, b, Check{Claim: a + " to " + b, Limit: limit}, func(a, b Series) float64 { return RatioOf(a, b).Median })
}

func (c Case) seconds(name, claim string, limit float64) []Check {
	return c.both(name, name, Check{Claim: claim, Limit: limit, Unit: " s"}, func(a, _ Series) float64 { return a.Wall().Seconds() })
}

func (c Case) lane(s Settings) []Check {
	var checks []Check
	for _, pair := range [][2]string{{exact, plain}, {zstd, plainZstd}} {
		if limit, ok := limits(pair[0], c.Image, c.Target); ok {
			checks = append(checks, c.ratio(pair[0], byHand, limit)...)
		}
		checks = append(checks, c.share(pair[0], pair[1], s)...)
		checks = append(checks, c.both(pair[0], pair[0], Check{Claim: pair[0] + " writes to disk", Limit: maxWritten, Unit: " MB"}, func(a, _ Series) float64 {
			return float64(Of(a, func(x Sample) int64 { return x.Written })) / 1e6
		})...)
	}
	return checks
}

// share is what a lane takes more than the target's load of the same archive. What of the transfer was not hidden behind the
// load can't be told apart, so the limit has all of it, as long as the line takes for it.
func (c Case) share(ours, load string, s Settings) []Check {
	checks := c.both(ours, load, Check{Claim: ours + " beyond " + load, Unit: " s", Limit: maxShare.Seconds()}, func(a, b Series) float64 {
		return (a.Wall() - b.Wall()).Seconds()
	})
	lane, ok := c.Find(ours)
	if len(checks) == 1 && ok && s.Bandwidth > 0 {
		checks[0].Limit += float64(Of(lane, func(x Sample) int64 { return x.Store.Down })) / float64(s.Bandwidth)
		checks[0].Met = checks[0].Problem == "" && checks[0].Value <= checks[0].Limit
	}
	return checks
}

// small says that the image is so small that the starts of programs decide, and of these nothing was promised.
func (c Case) small() bool { return c.Image == "small" }

func (c Case) cold() []Check {
	if c.small() {
		return nil
	}
	checks := append(c.ratio(exact, byHand, 0.60), c.ratio(exact, crane, 1.10)...)
	for _, other := range []string{byHand, crane} {
		checks = append(checks, c.fewer(exact, other, "asks the registry less often than", func(x Sample) int64 { return x.Registry.Requests })...)
		checks = append(checks, c.fewer(exact, other, "makes fewer requests in all than", func(x Sample) int64 {
			return x.Registry.Requests + x.Store.Requests
		})...)
	}
	return checks
}

// fewer holds one contender to fewer requests than another.
func (c Case) fewer(a, b, claim string, requests func(Sample) int64) []Check {
	checks := c.both(a, b, Check{Claim: a + " " + claim + " " + b}, func(a, _ Series) float64 { return float64(Of(a, requests)) })
	other, ok := c.Find(b)
	if len(checks) == 1 && ok {
		checks[0].Limit = float64(Of(other, requests) - 1)
		checks[0].Met = checks[0].Problem == "" && checks[0].Value <= checks[0].Limit
	}
	return checks
}

func (c Case) warm() []Check {
	if c.Image == "five" {
		return c.seconds(exact, "a warm prime of five images", 1)
	}
	if c.small() {
		return nil
	}
	return c.ratio(exact, byHand, 0.05)
}

// memory holds every process of ours to the limit.
func (c Case) memory() []Check {
	var checks []Check
	for _, name := range []string{exact, zstd} {
		checks = append(checks, c.both(name, name, Check{Claim: name + " has in use", Limit: maxMemory, Unit: " MiB"}, func(a, _ Series) float64 {
			return float64(a.Peak()) / (1 << 20)
		})...)
	}
	return checks
}

// Met says whether every limit is met.
func (r Report) Met() bool {
	return !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.Met })
}
