// Package gate owns the verdict over the jobs of a workflow run: whether a run in which some of them failed or were
// skipped may count as green. It is pure, and knows neither the runner nor what the jobs do.
//
// It exists because a job that needs a failed one is skipped, and GitHub counts a required check that was skipped as
// passed: a failed prime would turn into a green run in which nothing ran.
package gate

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// DefaultRequire is the pattern of the jobs that must succeed where Rules name none.
const DefaultRequire = "*prime*"

// Rules say what a green run is. All patterns are globs as in path.Match; a job's id has no slash, so "*" is any id. The
// words are those of re-actors/alls-green; other than there, allowing a job to fail does not allow it to be skipped.
type Rules struct {
	// Require names the jobs that must succeed, whatever the other rules say. Empty is DefaultRequire. A pattern that
	// matches no job fails the gate: the job was renamed, or the gate does not need it and can't see it.
	Require []string
	// AllowedSkips names the jobs that may be skipped, AllowedFailures those that may fail or be cancelled. A pattern that
	// matches no job is a notice: it allows nothing, so what it was meant for fails the gate when it is skipped or fails.
	AllowedSkips, AllowedFailures []string
	// AtLeastOne names jobs of which one must have succeeded: a run in which all were skipped has tested nothing. Empty
	// asks for none.
	AtLeastOne []string
}

// The results of a job in the needs context, from GitHub's "Contexts reference".
const (
	success   = "success"
	failure   = "failure"
	cancelled = "cancelled"
	skipped   = "skipped"
)

// Job is what became of one job.
type Job struct {
	// ID is the job's id in the workflow file. A matrix job and a call of a reusable workflow are one job each.
	ID string `json:"id"`
	// Result is the job's result, as the needs context has it.
	Result string `json:"result"`
	// Passed says whether the gate lets the job pass.
	Passed bool `json:"passed"`
	// Why is one line that says what decided, with the job as its subject: "failed, and …".
	Why string `json:"why"`
}

// Finding is one thing to tell about a run. The more important come first.
type Finding struct {
	// Job is the id of the job concerned, and Result its result; both are "" for a finding about the rules.
	Job    string `json:"job,omitempty"`
	Result string `json:"result,omitempty"`
	// Why is one line: what is wrong. Where there is a job, it is the subject.
	Why string `json:"why"`
	// Fatal says whether the finding makes the run red; otherwise it is a notice.
	Fatal bool `json:"fatal"`
}

// Verdict is the gate's answer.
type Verdict struct {
	OK bool
	// Jobs are all jobs, by id.
	Jobs []Job
	// Findings are in the order: rules, required jobs, other jobs, notices.
	Findings []Finding
	// Failed are the ids of the jobs that make the run red, Skipped those of all that were skipped, allowed or not; by id.
	Failed, Skipped []string
}

// Result is "success" or "failure".
func (v Verdict) Result() string {
	if v.OK {
		return success
	}
	return failure
}

// Judge reads needs, the JSON of a job's needs context, and holds it to rules. An error says that one of the two can't be
// read; all else is a verdict.
func Judge(needs []byte, rules Rules) (Verdict, error) {
	if len(rules.Require) == 0 {
		rules.Require = []string{DefaultRequire}
	}
	if err := rules.Check(); err != nil {
		return Verdict{}, err
	}
	results, err := parse(needs)
	if err != nil {
		return Verdict{}, err
	}
	jobs := rules.judge(results)
	return verdict(jobs, slices.Concat(
		rules.judgeRules(jobs),
		findings(jobs, func(j Job) bool { return matches(rules.Require, j.ID) }),
		findings(jobs, func(j Job) bool { return !matches(rules.Require, j.ID) }),
		rules.unused(jobs),
	)), nil
}

func verdict(jobs []Job, found []Finding) Verdict {
	v := Verdict{OK: true, Jobs: jobs, Findings: found, Failed: []string{}, Skipped: []string{}}
	for _, f := range found {
		v.OK = v.OK && !f.Fatal
	}
	for _, job := range jobs {
		if !job.Passed {
			v.Failed = append(v.Failed, job.ID)
		}
		if job.Result == skipped {
			v.Skipped = append(v.Skipped, job.ID)
		}
	}
	return v
}

// Check refuses patterns that no id could be held to.
func (r Rules) Check() error {
	for _, rule := range append(r.optional(), rule{"require", r.Require}) {
		for _, pattern := range rule.patterns {
			if strings.TrimSpace(pattern) == "" {
				return fmt.Errorf("reading %s: empty pattern", rule.name)
			}
			if _, err := path.Match(pattern, ""); err != nil {
				return fmt.Errorf("reading %s: invalid pattern %q", rule.name, pattern)
			}
		}
	}
	return nil
}

// rule is a rule by the name that people write.
type rule struct {
	name     string
	patterns []string
}

// optional are the rules whose patterns need not match a job.
func (r Rules) optional() []rule {
	return []rule{{"allowed-skips", r.AllowedSkips}, {"allowed-failures", r.AllowedFailures}, {"at-least-one", r.AtLeastOne}}
}

// judge holds each job to the rules.
func (r Rules) judge(results map[string]string) []Job {
	jobs := make([]Job, 0, len(results))
	for _, id := range slices.Sorted(maps.Keys(results)) {
		job := Job{ID: id, Result: results[id]}
		job.Passed, job.Why = r.passes(job)
		jobs = append(jobs, job)
	}
	return jobs
}

func (r Rules) passes(job Job) (bool, string) {
	required := matches(r.Require, job.ID)
	switch job.Result {
	case success:
		return true, "succeeded"
	case skipped:
		return decide(required, matches(r.AllowedSkips, job.ID), "was skipped", "allowed-skips")
	case failure:
		return decide(required, matches(r.AllowedFailures, job.ID), "failed", "allowed-failures")
	case cancelled:
		return decide(required, matches(r.AllowedFailures, job.ID), "was cancelled", "allowed-failures")
	default:
		return false, fmt.Sprintf("has the unknown result %q", job.Result)
	}
}

// decide says whether a job that did not succeed passes: never if it is required, else if the rule called name allows it.
func decide(required, allowed bool, what, name string) (bool, string) {
	switch {
	case required && allowed:
		return false, fmt.Sprintf("%s and is required to succeed; require outweighs %s", what, name)
	case required:
		return false, what + " and is required to succeed"
	case allowed:
		return true, fmt.Sprintf("%s, which %s allows", what, name)
	default:
		return false, fmt.Sprintf("%s, and %s does not name it", what, name)
	}
}

// findings are the failed jobs among those that are wanted.
func findings(jobs []Job, wanted func(Job) bool) []Finding {
	var found []Finding
	for _, job := range jobs {
		if !job.Passed && wanted(job) {
			found = append(found, Finding{Job: job.ID, Result: job.Result, Why: job.Why, Fatal: true})
		}
	}
	return found
}

// judgeRules holds the run as a whole to the rules.
func (r Rules) judgeRules(jobs []Job) []Finding {
	if len(jobs) == 0 {
		return []Finding{{Why: "the needs context is empty: list the jobs under needs of the gate's job", Fatal: true}}
	}
	var found []Finding
	for _, pattern := range r.Require {
		if !matchesAny(pattern, jobs) {
			found = append(found, Finding{Why: fmt.Sprintf("require: %q matches none of the jobs that the gate needs (%s)", pattern, ids(jobs)), Fatal: true})
		}
	}
	succeeded := func(j Job) bool { return j.Result == success && matches(r.AtLeastOne, j.ID) }
	if len(r.AtLeastOne) > 0 && !slices.ContainsFunc(jobs, succeeded) {
		found = append(found, Finding{Why: fmt.Sprintf("at-least-one: no job succeeded of those that match %s", strings.Join(r.AtLeastOne, ", ")), Fatal: true})
	}
	return found
}

// unused are the patterns that allow nothing, because no job has such an id.
func (r Rules) unused(jobs []Job) []Finding {
	var found []Finding
	for _, rule := range r.optional() {
		for _, pattern := range rule.patterns {
			if !matchesAny(pattern, jobs) {
				found = append(found, Finding{Why: fmt.Sprintf("%s: %q matches none of the jobs that the gate needs", rule.name, pattern)})
			}
		}
	}
	return found
}

func ids(jobs []Job) string {
	names := make([]string, len(jobs))
	for i, job := range jobs {
		names[i] = job.ID
	}
	return strings.Join(names, ", ")
}

func matchesAny(pattern string, jobs []Job) bool {
	return slices.ContainsFunc(jobs, func(j Job) bool { return matches([]string{pattern}, j.ID) })
}

// matches says whether one of the patterns, which have been checked, matches id.
func matches(patterns []string, id string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, id)
		return ok && err == nil
	})
}
