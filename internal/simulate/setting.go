package simulate

import (
	"errors"
	"fmt"
	"time"
)

// Setting is one matrix and what stands against it. Defaults fills it in.
type Setting struct {
	// Lanes is the width of the matrix, Images how many each lane needs.
	Lanes  int `json:"lanes"`
	Images int `json:"images"`
	// Image is what each image is like.
	Image Image `json:"image"`
	// Throttle is the registry's limit, Cache the cache service's.
	Throttle Throttle `json:"throttle"`
	Cache    Cache    `json:"cache"`
	// Latency is how long a request takes before bytes move, give or take a half.
	Latency time.Duration `json:"latency_ns"`
	// Bandwidth is that of one job, in bytes a second.
	Bandwidth int64 `json:"bandwidth"`
	// Spread is the time over which the lanes start.
	Spread time.Duration `json:"spread_ns"`
	// LaneTimeout and PrimeTimeout bound the waits for one image, as the option timeout does.
	LaneTimeout  time.Duration `json:"lane_timeout_ns"`
	PrimeTimeout time.Duration `json:"prime_timeout_ns"`
}

// Image is an image behind an index.
type Image struct {
	// Size is that of all layers together, in bytes.
	Size   int64 `json:"size"`
	Layers int   `json:"layers"`
}

// documents are the requests for an image's index and manifest, which every registry counts.
const documents = 2

// requests is how many requests a pull makes: documents, config and layers.
func (i Image) requests() int { return documents + 1 + i.Layers }

// bytes is what the answer to one of these requests brings; documents and config are too small to matter.
func (i Image) bytes(request int) int64 {
	if request <= documents {
		return 0
	}
	return i.Size / int64(i.Layers)
}

// Throttle is a registry's limit: a token bucket for each IP.
type Throttle struct {
	// Requests are refilled evenly over Window, up to Burst, which is also what there is at first.
	Requests int           `json:"requests"`
	Window   time.Duration `json:"window_ns"`
	Burst    int           `json:"burst"`
	// IPs is how many addresses the lanes come from, drawn evenly for each lane.
	IPs int `json:"ips"`
	// RetryAfter says that a refusal tells how long to wait, in whole seconds.
	RetryAfter bool `json:"retry_after"`
	// CountBlobs says that requests for blobs count as well.
	CountBlobs bool `json:"count_blobs"`
	// Taken is the share of the burst that others behind the same IPs have used up, at most: each IP draws its own.
	Taken float64 `json:"taken"`
	// Interval is what our client keeps between its requests from the start.
	Interval time.Duration `json:"interval_ns"`
}

// counts says whether a request of a pull counts against the limit.
func (t Throttle) counts(request int) bool { return t.CountBlobs || request < documents }

// Cache is the cache service, as one repository sees it.
type Cache struct {
	// Uploads and Lookups are how many it takes a minute; beyond, it sheds with a Retry-After.
	Uploads int `json:"uploads_per_minute"`
	Lookups int `json:"lookups_per_minute"`
	// Lag is how long a new entry takes to show up, at most: each draws its own.
	Lag time.Duration `json:"visibility_lag_ns"`
}

// Defaults is a setting of ordinary size: a hundred lanes of five images, against Docker Hub.
func Defaults() Setting {
	return Setting{
		Lanes: 100, Images: 5, Image: Image{Size: 150_000_000, Layers: 6},
		Throttle: Presets()[0].Throttle,
		// The uploads: https://github.blog/changelog/2026-01-16-rate-limiting-for-actions-cache-entries/. The look-ups have no
		// published limit; about as many as this were seen to be shed when they came at once.
		Cache:   Cache{Uploads: 200, Lookups: 1500, Lag: 10 * time.Second},
		Latency: 50 * time.Millisecond, Bandwidth: 50_000_000, Spread: 10 * time.Second,
		LaneTimeout: 3 * time.Minute, PrimeTimeout: 10 * time.Minute,
	}
}

// Validate says what makes no sense, all of it.
func (s Setting) Validate() error {
	var errs []error
	within := func(name string, value, least, most int) {
		if value < least || value > most {
			errs = append(errs, fmt.Errorf("%s: %d is not between %d and %d", name, value, least, most))
		}
	}
	within("lanes", s.Lanes, 1, MaxLanes)
	within("images", s.Images, 1, 1000)
	within("layers", s.Image.Layers, 1, 128)
	within("rate", s.Throttle.Requests, 1, 1e9)
	within("burst", s.Throttle.Burst, 1, 1e9)
	within("egress IPs", s.Throttle.IPs, 1, MaxLanes)
	within("uploads", s.Cache.Uploads, 1, 1e9)
	within("look-ups", s.Cache.Lookups, 1, 1e9)
	for name, d := range map[string]time.Duration{"window": s.Throttle.Window, "lane timeout": s.LaneTimeout, "prime timeout": s.PrimeTimeout} {
		if d <= 0 || d > 24*time.Hour {
			errs = append(errs, fmt.Errorf("%s: %s is not between 0 and 24h", name, d))
		}
	}
	for name, d := range map[string]time.Duration{"latency": s.Latency, "spread": s.Spread, "visibility lag": s.Cache.Lag, "interval": s.Throttle.Interval} {
		if d < 0 || d > time.Hour {
			errs = append(errs, fmt.Errorf("%s: %s is not between 0 and 1h", name, d))
		}
	}
	if s.Throttle.Taken < 0 || s.Throttle.Taken > 1 {
		errs = append(errs, fmt.Errorf("taken: %v is not between 0 and 1", s.Throttle.Taken))
	}
	if s.Bandwidth < 1 {
		errs = append(errs, fmt.Errorf("bandwidth: %d bytes a second move nothing", s.Bandwidth))
	}
	if s.Image.Size < 0 || s.Image.Size > 1e15 {
		errs = append(errs, fmt.Errorf("image size: %d bytes make no image", s.Image.Size))
	}
	return errors.Join(errs...)
}
