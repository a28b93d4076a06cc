package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/pullonce/pullonce/internal/plan"
	"github.com/pullonce/pullonce/internal/report"
)

// output is one output of the action. A value that is no string is written as JSON.
type output struct {
	name  string
	value any
}

// outputs writes what every mode that moves images hands to later steps, and what this mode adds.
func (s *session) outputs(planned plan.Plan, done report.Report, more ...output) error {
	if !s.runner.Enabled() {
		return nil
	}
	hit := len(done.Images) > 0 && len(references(done, report.Registry, report.Nowhere)) == 0
	all := append(planOutputs(planned),
		output{"cache-hit", strconv.FormatBool(hit)},
		output{"digests", digests(done)},
		output{"result", string(done.Result)},
		output{"report", s.reportPath(done.Mode)},
	)
	return s.write(append(all, more...))
}

// planOutputs are those that only the pin list decides.
func planOutputs(planned plan.Plan) []output {
	return []output{
		{"keys", planned.Keys()}, {"key", planned.Key()}, {"path", planned.Path()}, {"count", strconv.Itoa(planned.Count())},
	}
}

// write hands outputs to the runner; elsewhere there is nobody to hand them to.
func (s *session) write(outputs []output) error {
	if !s.runner.Enabled() {
		return nil
	}
	var errs []error
	for _, o := range outputs {
		value, ok := o.value.(string)
		if !ok {
			encoded, err := json.Marshal(o.value)
			if err != nil {
				return fmt.Errorf("writing output %s: %w", o.name, err)
			}
			value = string(encoded)
		}
		errs = append(errs, s.runner.Output(o.name, value))
	}
	return errors.Join(errs...)
}

// misused leaves a mode's wrong use for later steps and in the job summary: what has a result has failed. What can't be
// written changes nothing about how the run ends.
func (s *session) misused(mode string, problems []report.Problem) {
	outputs, err := outputsOf(mode)
	if err != nil || len(outputs) == 0 || !s.runner.Enabled() {
		return
	}
	if slices.Contains(outputs, "result") {
		err = s.write([]output{{"result", string(report.Failure)}})
	}
	md := report.Report{Mode: mode, Problems: problems}.Markdown()
	err = errors.Join(err, s.runner.Summary(fmt.Sprintf("### pullonce %s: wrong use\n", mode), nil, md.Tail))
	if err != nil {
		s.printf("%s", report.Line(err))
	}
}

// outputsOf are the outputs of a mode; a command that is none has none.
func outputsOf(mode string) ([]string, error) {
	modes, err := Modes()
	for _, m := range modes {
		if m.Name == mode {
			return m.Outputs, err
		}
	}
	return nil, err
}

// references are those of the images that came from one of the sources, each once.
func references(r report.Report, sources ...report.Source) []string {
	refs, seen := []string{}, map[string]bool{}
	for _, img := range r.Images {
		for _, source := range sources {
			if img.Source == source && !seen[img.Reference] {
				seen[img.Reference] = true
				refs = append(refs, img.Reference)
			}
		}
	}
	return refs
}

// digests are the root digests of a report's images, in order; "" is one that this run had no need to learn.
func digests(r report.Report) []string {
	all := []string{}
	for _, img := range r.Images {
		all = append(all, img.Digest)
	}
	return all
}

// reportPath is where a mode's JSON report is kept, or "" where there is no job to keep it for.
func (s *session) reportPath(mode string) string {
	if !s.runner.Enabled() {
		return ""
	}
	return join(s.getenv("RUNNER_TEMP"), "pullonce-"+mode+".json")
}

// keep keeps a mode's JSON report beside the runner's other files.
func (s *session) keep(mode string, write func(io.Writer) error) error {
	path := s.reportPath(mode)
	if path == "" {
		return nil
	}
	if err := writeWhole(path, write); err != nil {
		return fmt.Errorf("keeping the report: %w", err)
	}
	return nil
}

// writeWhole writes a file that appears whole or not at all.
func writeWhole(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error tells more
	}
	return err
}
