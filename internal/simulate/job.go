package simulate

import (
	"cmp"
	"time"

	"github.com/pullonce/pullonce/internal/pace"
	"github.com/pullonce/pullonce/internal/retry"
)

// role is what a job does.
type role uint8

const (
	quick   role = iota // a lane that pulls, with three quick tries an image
	patient             // a lane that pulls on our schedule
	loader              // a lane that loads from the cache
	primer              // the job that fills it
)

// mode is what a job's request is for.
type mode uint8

const (
	pulling   mode = iota // a part of an image, from the registry
	looking               // an entry, in the cache
	reserving             // room for an entry
	awaiting              // the entry that was just saved
)

// What people write by hand: three tries, a second and then two between them.
const (
	quickTries = 3
	quickPause = time.Second
)

// settle is how the cache store waits for its own entry to show up: store/actions, Options.SettleWait and await.
var settle = retry.Policy{Timeout: 2 * time.Minute, First: time.Second, Max: 5 * time.Second}

// job is one job of the run. It has one request on its way at a time.
type job struct {
	role    role
	mode    mode
	failed  bool
	ip      int32
	image   int // the one at hand
	request int // of the image at hand
	tries   int // of the image at hand, that have failed
	loop    loop
	pace    pace.Pacer
	spent   time.Duration // of the timeout, on the image at hand
	visible time.Duration // when the entry that was saved shows up
	end     time.Duration
}

func (w *world) newJob(r role, ip int) job { return job{role: r, ip: int32(ip)} }

// begin starts the job at t. It says when its first request arrives.
func (j *job) begin(w *world, t time.Duration) (time.Duration, bool) {
	j.pace.SetInterval(w.Throttle.Interval)
	return j.next(w, t)
}

// next takes up the image at hand, or ends the job.
func (j *job) next(w *world, t time.Duration) (time.Duration, bool) {
	j.request, j.tries, j.spent = 0, 0, 0
	switch {
	case j.image == w.Images:
		j.end = t
		return 0, false
	case j.role == loader, j.role == primer:
		return j.ask(w, looking, retry.Policy{}, t)
	default:
		return j.pull(w, t)
	}
}

// giveUp ends the job without the image at hand.
func (j *job) giveUp(t time.Duration) (time.Duration, bool) {
	j.end, j.failed = t, true
	return 0, false
}

// arrive is the moment at which the job's request arrives where it goes. It says when the next one does; more is false at
// the end of the job.
func (j *job) arrive(w *world) (at time.Duration, more bool) {
	switch j.mode {
	case pulling:
		return j.pulled(w, w.askRegistry(int(j.ip)), w.now+w.half())
	case reserving:
		return j.reserved(w, w.askCache(&w.uploads), w.now+w.half())
	default:
		return j.looked(w, w.askCache(&w.lookups), w.now+w.half())
	}
}

// ask begins a loop of requests to the cache service.
func (j *job) ask(w *world, m mode, p retry.Policy, t time.Duration) (time.Duration, bool) {
	j.mode, j.loop = m, newLoop(p, t)
	return t + w.half(), true
}

// looked goes on after a look-up was answered at t.
func (j *job) looked(w *world, a answer, t time.Duration) (time.Duration, bool) {
	class := retry.Throttled
	switch {
	case a.shed:
	case j.mode == awaiting && t < j.visible:
		class = retry.Transient
	case j.mode == awaiting:
		j.image++
		return j.next(w, t)
	case j.role == primer: // cold: a miss, and the image is pulled
		return j.pull(w, t)
	default:
		w.out.CacheBytes += w.Image.Size
		j.image++
		return j.next(w, t+w.half()+w.half()+w.transfer(w.Image.Size))
	}
	if next, more := j.loop.failed(w, t, class, a.hint); more {
		return next + w.half(), true
	}
	if j.role == loader {
		return j.pull(w, t) // a lane falls back
	}
	return j.giveUp(t)
}

// reserved goes on after a reservation was answered at t: the entry is uploaded, and awaited.
func (j *job) reserved(w *world, a answer, t time.Duration) (time.Duration, bool) {
	if a.shed {
		next, more := j.loop.failed(w, t, retry.Throttled, a.hint)
		if !more {
			return j.giveUp(t)
		}
		return next + w.half(), true
	}
	t += w.transfer(w.Image.Size)
	j.visible = t + time.Duration(w.random.Float64()*float64(w.Cache.Lag))
	return j.ask(w, awaiting, settle, t)
}

// pull takes the image at hand on from the request at hand, to the next that is counted, or to its end.
func (j *job) pull(w *world, t time.Duration) (time.Duration, bool) {
	if j.request == 0 {
		w.out.attempts.add(t)
	}
	j.mode = pulling
	for ; j.request < w.Image.requests(); j.request++ {
		if w.Throttle.counts(j.request) {
			j.loop = newLoop(j.policy(w), t)
			return j.try(w, t)
		}
		w.out.Requests++
		t = j.start(t) + w.half() + w.half() + w.transfer(w.Image.bytes(j.request))
	}
	w.out.RegistryBytes += w.Image.Size
	if j.role == primer {
		return j.ask(w, reserving, retry.Policy{}, t)
	}
	j.image++
	return j.next(w, t)
}

// pulled goes on after the registry has answered at t.
func (j *job) pulled(w *world, a answer, t time.Duration) (time.Duration, bool) {
	switch {
	case !a.shed:
		t += w.transfer(w.Image.bytes(j.request))
		j.request++
		return j.pull(w, t)
	case j.role == quick:
		return j.quickly(w, t)
	default:
		j.pace.CoolDown(clock(t), cmp.Or(a.hint, pace.CoolDown))
		return j.patiently(w, t, a.hint)
	}
}

// quickly begins the image at hand again after a short pause, as often as people do.
func (j *job) quickly(w *world, t time.Duration) (time.Duration, bool) {
	j.tries++
	if j.tries == quickTries {
		return j.giveUp(t)
	}
	j.request = 0
	return j.pull(w, t+quickPause<<(j.tries-1))
}

// patiently tries the request at hand again on our schedule; hint is the wait that was asked for. What a try that failed has
// taken, and each wait, is spent from the timeout: see budget in package registry.
func (j *job) patiently(w *world, t, hint time.Duration) (time.Duration, bool) {
	j.spent += t - j.loop.tried
	next, more := j.loop.failed(w, t, retry.Throttled, hint)
	if !more {
		return j.giveUp(t)
	}
	w.out.attempts.add(next)
	j.spent += next - t
	return j.try(w, next)
}

// try sends the request at hand at t, or as soon after as the pace allows. A pause that is longer than what is left of the
// timeout is a refusal.
func (j *job) try(w *world, t time.Duration) (time.Duration, bool) {
	if cooling := j.pace.Cooling(clock(t)); j.role != quick && cooling > j.timeout(w)-j.spent {
		return j.patiently(w, t, cooling)
	}
	return j.start(t) + w.half(), true
}

// start is when a request may be sent that could be at t.
func (j *job) start(t time.Duration) time.Duration {
	if j.role == quick {
		return t
	}
	return j.pace.Reserve(clock(t)).Sub(clock(0))
}

// policy is the schedule for the request at hand, less what the image has spent.
func (j *job) policy(w *world) retry.Policy {
	return retry.Policy{Timeout: j.timeout(w), Used: j.spent}
}

func (j *job) timeout(w *world) time.Duration {
	if j.role == primer {
		return w.PrimeTimeout
	}
	return w.LaneTimeout
}

// clock is virtual time for those who want a time of day.
func clock(t time.Duration) time.Time { return time.Unix(0, 0).Add(t) }
