package simulate

import (
	"context"
	"math/rand/v2"
	"time"
)

// Outcome is what one run came to.
type Outcome struct {
	// Failed is how many lanes went without an image; all of them where prime failed.
	Failed int
	// Requests are all to the registry, Throttled those that it shed.
	Requests, Throttled int
	// CacheRequests are all to the cache service, CacheThrottled those that it shed.
	CacheRequests, CacheThrottled int
	// RegistryBytes and CacheBytes are those of layers that came from there.
	RegistryBytes, CacheBytes int64
	// Ends are when the lanes ended, well or not, from the start of the run; none where prime failed.
	Ends []time.Duration
	// PrimeFailed says that no lane ran.
	PrimeFailed bool

	counted, shed, attempts series
	end                     time.Duration
}

// series counts by the second from the start of the run.
type series []int

// add counts one at t.
func (s *series) add(t time.Duration) {
	second := int(t / time.Second)
	for len(*s) <= second {
		*s = append(*s, 0)
	}
	(*s)[second]++
}

// world is one run under way.
type world struct {
	Setting
	strategy Strategy
	places   []Place
	random   *rand.Rand
	now      time.Duration
	queue    queue
	jobs     []job // the lanes, and prime behind them
	quotas   []bucket
	uploads  quota
	lookups  quota
	out      Outcome
}

// Once is one run of a strategy with the lanes at the given places. The same seed gives the same outcome. Where ctx ends
// before the run does, the outcome is of no use.
func Once(ctx context.Context, s Setting, strategy Strategy, places []Place, seed uint64) Outcome {
	w := newWorld(s, strategy, places, seed)
	if strategy == Prime {
		prime := s.Lanes
		w.jobs[prime] = w.newJob(primer, w.random.IntN(s.Throttle.IPs))
		w.begin(prime, 0)
	} else {
		w.beginLanes(0)
	}
	for i := 0; len(w.queue) > 0; i++ {
		if i%1024 == 0 && ctx.Err() != nil {
			break
		}
		next := w.queue.pop()
		w.now = next.at
		j := &w.jobs[next.job]
		if at, more := j.arrive(w); more {
			w.queue.push(event{at, next.job})
		} else {
			w.ended(j)
		}
	}
	return w.out
}

func newWorld(s Setting, strategy Strategy, places []Place, seed uint64) *world {
	w := &world{
		Setting: s, strategy: strategy, places: places, random: rand.New(rand.NewPCG(seed, 2)),
		jobs: make([]job, s.Lanes+1), queue: make(queue, 0, s.Lanes+1), quotas: make([]bucket, s.Throttle.IPs),
		uploads: quota{most: s.Cache.Uploads}, lookups: quota{most: s.Cache.Lookups},
	}
	w.uploads.phase = time.Duration(w.random.Int64N(int64(time.Minute)))
	w.lookups.phase = w.uploads.phase
	w.out.Ends = make([]time.Duration, 0, s.Lanes)
	for i := range w.quotas {
		w.quotas[i] = newBucket(s.Throttle.Requests, s.Throttle.Window, s.Throttle.Burst)
		w.quotas[i].drain(w.random.Float64() * s.Throttle.Taken)
	}
	return w
}

// beginLanes starts the lanes, each at its own moment from t on.
func (w *world) beginLanes(t time.Duration) {
	kind := map[Strategy]role{Pull: quick, PullDeadline: patient, Prime: loader}[w.strategy]
	for i, place := range w.places {
		w.jobs[i] = w.newJob(kind, place.IP)
		w.begin(i, t+place.Start)
	}
}

// begin starts a job at t.
func (w *world) begin(i int, t time.Duration) {
	if at, more := w.jobs[i].begin(w, t); more {
		w.queue.push(event{at, int32(i)})
	}
}

// ended takes down what a job came to.
func (w *world) ended(j *job) {
	w.out.end = max(w.out.end, j.end)
	switch {
	case j.role != primer:
		w.out.Ends = append(w.out.Ends, j.end)
		if j.failed {
			w.out.Failed++
		}
	case j.failed:
		w.out.PrimeFailed, w.out.Failed = true, w.Lanes
	default:
		w.beginLanes(j.end)
	}
}

// half is half of a request's latency: from the job to the service, or back.
func (w *world) half() time.Duration {
	return time.Duration((0.25 + w.random.Float64()/2) * float64(w.Latency))
}

// transfer is how long bytes take.
func (w *world) transfer(bytes int64) time.Duration {
	return time.Duration(float64(bytes) / float64(w.Bandwidth) * float64(time.Second))
}

// answer is what a service says: yes, or how long to wait, where it says so.
type answer struct {
	shed bool
	hint time.Duration
}

// askRegistry counts a request against the bucket of an IP.
func (w *world) askRegistry(ip int) answer {
	w.out.Requests++
	w.out.counted.add(w.now)
	wait := w.quotas[ip].take(w.now)
	if wait == 0 {
		return answer{}
	}
	w.out.Throttled++
	w.out.shed.add(w.now)
	if !w.Throttle.RetryAfter {
		return answer{shed: true}
	}
	return answer{shed: true, hint: wholeSeconds(wait)}
}

// askCache counts a request against one of the cache service's limits.
func (w *world) askCache(q *quota) answer {
	w.out.CacheRequests++
	wait := q.take(w.now)
	if wait == 0 {
		return answer{}
	}
	w.out.CacheThrottled++
	return answer{shed: true, hint: wholeSeconds(wait)}
}

// wholeSeconds rounds up, as a Retry-After is written.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1) / time.Second * time.Second
}
