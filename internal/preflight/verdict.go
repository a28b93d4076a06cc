package preflight

import (
	"fmt"
	"strings"
	"time"
)

// Row is one question and what came of it.
type Row struct {
	Question
	// Answer counts where Err is nil.
	Answer
	// Err is why there is no answer, or nil.
	Err error
	// Attempts is how many tries it took; 0 means that a kept verdict has the answer.
	Attempts int
	// Unanswered is the time from the first try that failed to the end; 0 where none failed.
	Unanswered time.Duration
	// LastFailure is the error of the last try that failed, or nil.
	LastFailure error
}

// Outcome is the row in one word.
func (r Row) Outcome() string {
	switch {
	case r.Err != nil:
		return "unanswered"
	case r.Allowed:
		return "allowed"
	default:
		return "denied"
	}
}

// Verdict is what the answers come to.
type Verdict struct{ Rows []Row }

// Allowed says whether every question was answered with yes.
func (v Verdict) Allowed() bool {
	return len(v.Denied()) == 0 && v.Answered()
}

// Answered says whether every question was answered.
func (v Verdict) Answered() bool { return len(v.Failed()) == 0 }

// Denied are the rows that were answered with no, in order.
func (v Verdict) Denied() []Row {
	return v.rows(func(r Row) bool { return r.Err == nil && !r.Allowed })
}

// Failed are the rows without an answer, in order.
func (v Verdict) Failed() []Row {
	return v.rows(func(r Row) bool { return r.Err != nil })
}

func (v Verdict) rows(want func(Row) bool) []Row {
	var rows []Row
	for _, r := range v.Rows {
		if want(r) {
			rows = append(rows, r)
		}
	}
	return rows
}

// Window is a time in which the API did not answer as it does now.
type Window struct {
	// Length is the time from the first failure to the last answer that came late.
	Length time.Duration
	// Questions are those that met it, Attempts the most tries that one of them took.
	Questions, Attempts int
	// Last is the failure of the question that took longest.
	Last error
}

// RodeOut is the window that the answers had to wait for, and whether there was one.
func (v Verdict) RodeOut() (Window, bool) {
	var w Window
	for _, r := range v.Rows {
		if r.Err != nil || r.Attempts < 2 {
			continue
		}
		w.Questions++
		w.Attempts = max(w.Attempts, r.Attempts)
		if r.Unanswered >= w.Length {
			w.Length, w.Last = r.Unanswered, r.LastFailure
		}
	}
	return w, w.Questions > 0
}

// Lines are rows as permissions are written: one line for each resource, its verbs together.
func Lines(rows []Row) []string {
	var order []string
	verbs := map[string][]string{}
	for _, r := range rows {
		resource := r.resource()
		if verbs[resource] == nil {
			order = append(order, resource)
		}
		verbs[resource] = append(verbs[resource], r.Verb)
	}
	lines := make([]string, len(order))
	for i, resource := range order {
		lines[i] = fmt.Sprintf("%s: %s", resource, strings.Join(verbs[resource], ","))
	}
	return lines
}
