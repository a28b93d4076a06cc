package cli

import (
	"cmp"
	"context"
	"fmt"
	"sync"
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
	Timeout     wait   `default:"3m" help:"How long to ask again while the API does not answer; at least 21s."`
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

// verdictKey is what a verdict is kept under: everything that it holds for, the job first. It is "", and nothing is
// kept, outside of a job and for a user who is not known. RUNNER_TRACKING_ID tells the jobs of a matrix apart, which have all else in common.
func (s *session) verdictKey(api *cluster.API, questions []preflight.Question) string {
	if api.User() == "" { // the next one may be another
		return ""
	}
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
