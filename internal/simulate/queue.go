package simulate

import "time"

// event is a request that arrives where it goes.
type event struct {
	at  time.Duration
	job int32
}

// before orders events; a job has one at a time, so that no two are equal.
func (e event) before(other event) bool {
	return e.at < other.at || e.at == other.at && e.job < other.job
}

// arity is how many children a node of the heap has: with four, a wide heap is half as deep as with two.
const arity = 4

// queue is a heap of events, the next one first. It is container/heap for one type: a wide matrix makes millions of
// events, and there each would be boxed.
type queue []event

func (q *queue) push(e event) {
	h := append(*q, e)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / arity
		if !e.before(h[parent]) {
			break
		}
		h[i], i = h[parent], parent
	}
	h[i] = e
	*q = h
}

func (q *queue) pop() event {
	h := *q
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		first := i*arity + 1
		if first >= len(h) {
			break
		}
		least := first
		for child := first + 1; child < min(first+arity, len(h)); child++ {
			if h[child].before(h[least]) {
				least = child
			}
		}
		if !h[least].before(last) {
			break
		}
		h[i], i = h[least], least
	}
	h[i] = last
	return top
}
