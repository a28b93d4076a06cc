package simulate

import "time"

// bucket is a token bucket, full at first, by the generic cell rate algorithm: all it keeps is when it is full again.
type bucket struct {
	each  time.Duration // for one token to be refilled
	depth time.Duration // of the whole bucket
	full  time.Duration // when it is full again
}

func newBucket(tokens int, window time.Duration, burst int) bucket {
	each := max(1, window/time.Duration(tokens))
	return bucket{each: each, depth: each * time.Duration(burst)}
}

// drain takes a share of the whole at once, in [0, 1].
func (b *bucket) drain(share float64) { b.full = time.Duration(share * float64(b.depth)) }

// take takes a token, or says how long until there is one.
func (b *bucket) take(now time.Duration) (wait time.Duration) {
	full := max(b.full, now) + b.each
	if wait := full - now - b.depth; wait > 0 {
		return wait
	}
	b.full = full
	return 0
}

// quota is a number of requests a minute that starts anew with each minute: the cache service speaks of when its limit
// resets.
type quota struct {
	most   int
	phase  time.Duration // into the minute at the start
	minute int64         // the one that is counted
	used   int
}

// take takes a request from the minute's, or says how long until the next.
func (q *quota) take(now time.Duration) (wait time.Duration) {
	now += q.phase
	if minute := int64(now / time.Minute); minute != q.minute {
		q.minute, q.used = minute, 0
	}
	if q.used == q.most {
		return (time.Duration(q.minute)+1)*time.Minute - now
	}
	q.used++
	return 0
}
