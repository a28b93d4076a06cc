package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	program "github.com/pullonce/pullonce/internal/command" // command is a mode here
	"github.com/pullonce/pullonce/internal/preflight"
	"github.com/pullonce/pullonce/internal/preflight/cluster"
	"github.com/pullonce/pullonce/internal/preflight/keep"
	"github.com/pullonce/pullonce/internal/preflight/kubeconfig"
	"github.com/pullonce/pullonce/internal/report"
)

// preflightCommand asks a cluster's API whether the job may do what it will do.
type preflightCommand struct {
	Permissions list   `placeholder:"RESOURCE: VERBS" help:"What the job will do, one a line, as in 'pods: get,list', 'pods/exec: create' or 'batch/jobs: create'; default: what a runner's container hooks need."`
	Namespace   string `placeholder:"NAME" help:"The namespace; default: that of the context or of the pod."`
	Kubeconfig  string `placeholder:"FILE" help:"The kubeconfig file; default: those that KUBECONFIG names, ~/.kube/config, the pod's service account."`
	Context     string `placeholder:"NAME" help:"The context of the kubeconfig file; default: the current one."`
	Timeout     span   `default:"3m" help:"How long to ask again while the API does not answer; at least 21s."`
	Fresh       bool   `default:"false" help:"Ask even where this job has an answer already."`
	JSON        bool   `name:"json" action:"-" help:"Print the verdict as JSON."`
}

func (c *preflightCommand) run(ctx context.Context, s *session) (ExitCode, error) {
	lines := []string(c.Permissions)
	if len(lines) == 0 {
		lines = preflight.Default()
	}
	permissions, err := preflight.Parse(lines)
	if err != nil {
		return 0, usageError{err: err, hint: "write them as in 'pods: get,list', 'pods/exec: create' or 'batch/jobs: create', one a line"}
	}
	api, err := cluster.Open(cluster.Options{
		Source: kubeconfig.Source{Path: c.Kubeconfig, Context: c.Context, LookupEnv: s.LookupEnv}, Runner: program.Host{},
	})
	if err != nil {
		return 0, usageError{err: err, hint: "name a kubeconfig file, set KUBECONFIG, or run in a pod with a service account"}
	}
	p := flight{
		server: api.Server(), namespace: cmp.Or(c.Namespace, api.Namespace()), began: time.Now(),
	}
	questions := preflight.Questions(permissions, p.namespace)
	key := s.verdictKey(api, questions)
	if p.verdict, p.kept = s.keptVerdict(key, questions, c.Fresh); !p.kept {
		if p.verdict, err = preflight.Ask(ctx, api, questions, preflight.Options{
			Timeout: time.Duration(c.Timeout), OnWait: s.onWait(time.Duration(c.Timeout)),
		}); err != nil {
			return 0, err
		}
		s.keepVerdict(key, p.verdict)
	}
	return p.code(), s.landed(p, c.JSON)
}

// onWait says once that the API does not answer as it should, and each wait in the debug log.
func (s *session) onWait(timeout time.Duration) func(preflight.Question, int, time.Duration, error) {
	var once sync.Once
	return func(q preflight.Question, attempt int, wait time.Duration, err error) {
		once.Do(func() {
			s.printf("the cluster's API does not answer as it should (%s): asking again for up to %s", report.Line(err), report.Duration(max(timeout, preflight.MinTimeout)))
		})
		s.runner.Debug(fmt.Sprintf("%s: try %d: %s; the next in %s", q, attempt, report.Line(err), report.Duration(wait)))
	}
}

// verdictKey is what a verdict is kept under: everything that it holds for, the job first. It is "" outside of a job,
// where nothing is kept. RUNNER_TRACKING_ID tells the jobs of a matrix apart, which have all else in common.
func (s *session) verdictKey(api *cluster.API, questions []preflight.Question) string {
	var parts []string
	for _, name := range []string{"RUNNER_TEMP", "GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_JOB"} {
		value := s.getenv(name)
		if value == "" {
			return ""
		}
		parts = append(parts, value)
	}
	parts = append(parts, s.getenv("RUNNER_NAME"), s.getenv("RUNNER_TRACKING_ID"), api.Server(), api.User())
	for _, q := range questions {
		parts = append(parts, q.Group, q.Resource, q.Subresource, q.Verb, q.Namespace)
	}
	return keep.Key(parts...)
}

func (s *session) keptVerdict(key string, questions []preflight.Question, fresh bool) (preflight.Verdict, bool) {
	if key == "" || fresh {
		return preflight.Verdict{}, false
	}
	v, err := keep.Read(s.getenv("RUNNER_TEMP"), key, questions)
	if err != nil {
		s.runner.Debug(report.Line(err))
	}
	return v, err == nil
}

// keepVerdict keeps a verdict for later steps. Without it they ask again, which is no reason to fail.
func (s *session) keepVerdict(key string, v preflight.Verdict) {
	if key == "" {
		return
	}
	if err := keep.Write(s.getenv("RUNNER_TEMP"), key, v); err != nil {
		s.printf("%s", report.Line(err))
	}
}

// flight is a preflight that has landed.
type flight struct {
	verdict           preflight.Verdict
	server, namespace string
	kept              bool
	began             time.Time
}

func (p flight) code() ExitCode {
	if p.verdict.Allowed() {
		return ExitOK
	}
	return ExitNo
}

func (p flight) result() report.Result {
	if p.verdict.Allowed() {
		return report.Success
	}
	return report.Failure
}

// problems are what a person should know: what is denied, what was not answered, and what was ridden out.
func (p flight) problems() []report.Problem {
	var all []report.Problem
	if denied := p.verdict.Denied(); len(denied) > 0 {
		all = append(all, report.Problem{
			Severity: report.Error, Kind: "denied",
			Message: fmt.Sprintf("not allowed in namespace %q: %s", p.namespace, strings.Join(preflight.Lines(denied), "; ")),
			Hint:    "give the job's user a role with them, or name what it really needs in permissions",
		})
	}
	if failed := p.verdict.Failed(); len(failed) > 0 {
		all = append(all, report.Problem{
			Severity: report.Error, Kind: "unanswered",
			Message: fmt.Sprintf("%d of %d questions have no answer from %s: %s", len(failed), len(p.verdict.Rows), p.server, report.Line(failed[0].Err)),
		})
	}
	if w, ok := p.verdict.RodeOut(); ok {
		all = append(all, report.Problem{
			Severity: report.Warning, Kind: "window",
			Message: fmt.Sprintf("rode out %s in which the cluster's API did not answer as it should: %d of %d questions, up to %d tries (%s)",
				report.Duration(w.Length), w.Questions, len(p.verdict.Rows), w.Attempts, report.Line(w.Last)),
		})
	}
	return all
}

// landed tells of a preflight, in every form that somebody may read.
func (s *session) landed(p flight, asJSON bool) error {
	s.sayAll(p.problems())
	var err error
	if asJSON {
		err = s.printJSON(p.document())
	} else {
		err = s.print(p.writeTable)
	}
	return errors.Join(err, s.summarizeFlight(p), s.keep("preflight", p.document()), s.write([]output{
		{"allowed", strconv.FormatBool(p.verdict.Allowed())}, {"result", string(p.result())},
	}))
}

// document is the verdict for programs.
func (p flight) document() func(io.Writer) error {
	type row struct {
		Permission string `json:"permission"`
		Namespace  string `json:"namespace,omitempty"`
		Outcome    string `json:"outcome"`
		Reason     string `json:"reason,omitempty"`
		Attempts   int    `json:"attempts"`
	}
	rows := make([]row, len(p.verdict.Rows))
	for i, r := range p.verdict.Rows {
		rows[i] = row{r.String(), r.Namespace, r.Outcome(), reason(r), r.Attempts}
	}
	return indented(map[string]any{
		"mode": "preflight", "result": p.result(), "allowed": p.verdict.Allowed(), "kept": p.kept, "server": p.server,
		"namespace": p.namespace, "permissions": rows, "denied": emptyNotNull(preflight.Lines(p.verdict.Denied())),
		"problems": append([]report.Problem{}, p.problems()...), "elapsed_ns": time.Since(p.began),
	})
}

func reason(r preflight.Row) string {
	if r.Err != nil {
		return report.Line(r.Err)
	}
	return r.Reason
}

func (p flight) cells(r preflight.Row) []string {
	attempts := "–"
	if r.Attempts > 0 {
		attempts = strconv.Itoa(r.Attempts)
	}
	return []string{r.String(), cmp.Or(r.Namespace, "–"), r.Outcome(), attempts}
}

var flightColumns = []string{"PERMISSION", "NAMESPACE", "OUTCOME", "ATTEMPTS"}

func (p flight) writeTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(flightColumns, "\t"))
	for _, r := range p.verdict.Rows {
		fmt.Fprintln(tw, strings.Join(p.cells(r), "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "preflight: %s\n", p.headline())
	return err
}

// headline is the verdict in one line.
func (p flight) headline() string {
	line := fmt.Sprintf("%s, %d of %d permissions at %s", p.result(), len(p.verdict.Rows)-len(p.verdict.Denied())-len(p.verdict.Failed()), len(p.verdict.Rows), p.server)
	if p.kept {
		return line + ", kept from earlier in this job"
	}
	return line + " in " + report.Duration(time.Since(p.began))
}

func (s *session) summarizeFlight(p flight) error {
	if !s.runner.Enabled() {
		return nil
	}
	rows := make([]string, len(p.verdict.Rows))
	for i, r := range p.verdict.Rows {
		rows[i] = report.Row(p.cells(r)...)
	}
	head := fmt.Sprintf("### pullonce preflight: %s\n\n%s\n\n%s", p.result(), p.headline(), report.Heading(flightColumns...))
	return s.runner.Summary(head, rows, "")
}
