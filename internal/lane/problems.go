package lane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/plan"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/target"
)

// severity is that of an image that a lane could not have.
func (r *run) severity() report.Severity {
	if r.OnMiss == Fail {
		return report.Error
	}
	return report.Warning
}

// tell says what is to be said of an image: each thing once, however many targets it is true of.
func (b *batch) tell() {
	said := map[string]bool{}
	for _, p := range b.problems {
		if !said[p.Message] {
			said[p.Message] = true
			b.log.Add(p)
		}
	}
}

// settle notes what is to be said of a job that is done: that the image is not in its target, that the store could not
// give it, that another had its name.
func (b *batch) settle(j *job) {
	name := j.item.Name
	kind, hint := classify(cmp.Or(j.err, j.cause))
	out := isOutage(cmp.Or(j.cause, j.err)) // that is said once, for all
	if out {
		b.outage.concerns(name)
	}
	switch {
	case j.err != nil:
		j.row.Source, j.row.Outcome = report.Nowhere, "failed"
		if !out || j.cause != nil {
			b.problems = append(b.problems, report.Problem{
				Severity: b.severity(), Kind: kind, Image: name, Message: name + ": " + report.Line(j.err), Hint: hint,
			})
		}
	case j.cause != nil && !out:
		what := "pulled from the registry instead of the store"
		if j.row.Source == report.Present {
			what = "there already, as the registry says and not the store"
		}
		b.problems = append(b.problems, report.Problem{
			Severity: report.Warning, Kind: kind, Image: name, Hint: hint,
			Message: fmt.Sprintf("%s: %s: %s", name, what, report.Line(j.cause)),
		})
	}
	if j.replaced != "" {
		b.problems = append(b.problems, report.Problem{
			Severity: report.Notice, Kind: "replaced", Image: name,
			Message: fmt.Sprintf("%s: %s had another image under this name, %s; it was replaced", name, j.target.Name, j.replaced),
		})
	}
}

// unavailable is the one problem of a target that is not there; it names the images that go without. Where there is no
// such target as a rule, that is no fault of the run: a notice, unless misses are to fail it.
func (r *run) unavailable(t Target, items []plan.Item, err error) {
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = item.Name
	}
	p := report.Problem{
		Severity: r.severity(), Kind: "unavailable", Image: strings.Join(names, ", "),
		Message: fmt.Sprintf("nothing loaded into %s: %s; without it: %s", t.Name, report.Line(err), abridge(names)),
	}
	if r.System != "linux" {
		p.Hint = "lanes load on Linux runners; on " + r.System + " there is a daemon only where the job starts one, and prime, plan and gate work"
		if r.OnMiss != Fail {
			p.Severity = report.Notice
		}
	}
	r.log.Add(p)
}

// passedBy is the one notice of pins that are for other platforms only.
func (r *run) passedBy(p platform.Platform) {
	var names []string
	for _, candidate := range r.Pins {
		if len(candidate.Platforms) > 0 && !contains(candidate.Platforms, p) {
			names = append(names, cmp.Or(candidate.Name, candidate.Reference.Familiar()))
		}
	}
	if len(names) == 0 {
		return
	}
	r.log.Add(report.Problem{
		Severity: report.Notice, Kind: "platform", Image: strings.Join(names, ", "),
		Message: fmt.Sprintf("not for %s, as platforms= says, and so not loaded here: %s", p, abridge(names)),
	})
}

// tellArtifacts is the one notice of pins that are for the store alone.
func (r *run) tellArtifacts(jobs []job) {
	var names []string
	for _, j := range jobs {
		if j.item.Pin.Artifact && !slices.Contains(names, j.item.Name) {
			names = append(names, j.item.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	r.log.Add(report.Problem{
		Severity: report.Notice, Kind: "artifact", Image: strings.Join(names, ", "),
		Message: "no images but artifacts, which are stored and not loaded: " + abridge(names),
	})
}

// abridge names the first few of a list and counts the rest.
func abridge(names []string) string {
	const most = 20
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// classify gives a problem's kind and what to do about it.
func classify(err error) (kind, hint string) {
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted", ""
	case errors.Is(err, store.ErrNotFound):
		return "miss", "prime must have run for the same pin, platform, key-salt and layers, into the same store"
	case errors.Is(err, store.ErrCorrupt), errors.Is(err, image.ErrVerify):
		return "corrupt", "prime with verify: full replaces the entry"
	case errors.Is(err, target.ErrRecompressed):
		return "layers", "prime and load with layers: exact what such a target needs"
	case errors.Is(err, image.ErrRead), isStoreFault(err):
		return "store", ""
	default:
		return "load", ""
	}
}

// kindDigest is the kind of the warning of references by digest.
const kindDigest = "digest"

// digestList gathers the references that a target can't answer to, for one warning a run.
type digestList struct {
	mu         sync.Mutex
	target     string
	references []string
}

func (l *digestList) add(target string, references []string) {
	if len(references) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target, l.references = target, append(l.references, references...)
}

// warnOfDigests says once which digest pins will be pulled again in spite of the load, and what to do.
func (r *run) warnOfDigests() {
	if len(r.digests.references) == 0 {
		return
	}
	slices.Sort(r.digests.references)
	r.log.Add(report.Problem{
		Severity: report.Warning, Kind: kindDigest,
		Message: fmt.Sprintf("%s has an image store that never resolves a digest after a load, so these are pulled again when used: %s",
			r.digests.target, abridge(slices.Compact(r.digests.references))),
		Hint: "use the image by its tag, which was loaded and verified against the digest, or turn on Docker's containerd image store",
	})
}

// result is the word for the whole run.
func (r *run) result(rows []report.Image) report.Result {
	missing := slices.ContainsFunc(rows, func(row report.Image) bool { return row.Source == report.Nowhere })
	degraded := slices.ContainsFunc(r.log.Problems(), func(p report.Problem) bool {
		return p.Severity != report.Notice && p.Kind != kindDigest // all images are there
	})
	switch {
	case missing && r.OnMiss == Fail:
		return report.Failure
	case missing || degraded:
		return report.Degraded
	default:
		return report.Success
	}
}
