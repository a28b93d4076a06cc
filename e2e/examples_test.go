//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/regtest"
)

// example is how act runs a workflow of the folder examples, as it is shipped.
type example struct {
	// event starts the workflow; "" is a push.
	event string
	// payload is the event's; "" is an empty one.
	payload string
	// args are for act.
	args []string
	// notRun is what of the workflow act can't run, and why. It is linted like the rest.
	notRun string
	// extra are images besides those of images.txt, and without are those of it that the workflow leaves out.
	extra, without []string
	// readOnly denies what the run wants to save in the cache.
	readOnly bool
	// platforms is how many are primed; 0 is one.
	platforms int
	// silent says that not every image is run, where it would say its name.
	silent bool
	// azurite keeps the cache's blobs in an Azurite; else they are in memory.
	azurite bool
	// prepare is called before the run, check after it; nil is nothing.
	prepare, check func(t *testing.T, u *user)
}

// exampleRuns are the runs by file. Programs that this machine has not (helm, kind, Compose, buildx) are stand-ins from
// testdata, and so are the actions of GitHub: cache, artifacts, github-script.
var exampleRuns = map[string]example{
	"basic.yml":         {azurite: true, check: warmIsFree},
	"job-per-image.yml": {check: warmIsFree},
	"official-cache.yml": {check: func(t *testing.T, u *user) {
		require.Empty(t, u.cache.Requests(), "pullonce itself asked the service")
		warmIsFree(t, u)
	}},
	"kind.yml": {
		silent:  true,
		extra:   []string{"kindest/node:v1.34.0"},
		notRun:  "kind itself: the cluster is a node with a containerd as kind makes it",
		prepare: func(t *testing.T, u *user) { u.nodes = startKind(t, u.daemon, "native") },
		check: func(t *testing.T, u *user) {
			for _, image := range []string{"library/redis:8.2.1", "library/postgres:17.6", "gitea/gitea:1.24.5"} {
				require.Contains(t, u.nodes.names(t), "docker.io/"+image)
			}
			require.Contains(t, u.nodes.names(t), "quay.io/prometheus/prometheus:v3.5.0")
			require.Regexp(t, `prometheus:v3\.5\.0 .* saved \(zstd: `, u.log)
		},
	},
	"forks.yml": {
		event: "pull_request", readOnly: true,
		payload: `{"pull_request": {"head": {"repo": {"fork": true, "full_name": "stranger/app"}}, "base": {"repo": {"full_name": "acme/app"}}}}`,
		check:   func(t *testing.T, u *user) { require.Empty(t, u.cache.Requests()) },
	},
	"warm-up.yml":     {silent: true, event: "schedule", check: warmIsFree},
	"self-hosted.yml": {check: func(t *testing.T, u *user) { require.Empty(t, u.cache.Requests()) }},
	"two-architectures.yml": {
		platforms: 2, args: []string{"--matrix", "runner:ubuntu-24.04"},
		notRun: "the lane on the arm64 runner: this machine has one architecture",
		check: func(t *testing.T, u *user) {
			saved := map[string]int{}
			for _, entry := range u.cache.Entries() {
				for _, architecture := range []string{"amd64", "arm64"} {
					if strings.Contains(entry.Key, "-linux-"+architecture+"-") {
						saved[architecture]++
					}
				}
			}
			require.Equal(t, map[string]int{"amd64": 4, "arm64": 4}, saved)
		},
	},
	"reusable-caller.yml": {check: warmIsFree},
	"compose.yml":         {},
	"testcontainers.yml": {
		silent:  true,
		extra:   []string{"testcontainers/ryuk:0.13.0"},
		without: []string{"gitea/gitea:1.24.5", "quay.io/prometheus/prometheus:v3.5.0"},
		notRun:  "testcontainers itself: the test makes the containers that it would make",
	},
	"buildx.yml": {
		silent: true,
		extra:  []string{"moby/buildkit:buildx-stable-1"},
		notRun: "buildx itself: its builder's container is made of the image, and the build is Docker's own",
		check:  func(t *testing.T, u *user) { u.daemon.id(t, "app") },
	},
	"before-the-first-step.yml": {
		silent: true,
		check: func(t *testing.T, u *user) {
			require.Equal(t, "this is redis:8.2.1", u.daemon.docker(t, "logs", "redis"))
			require.Contains(t, u.log, "this is postgres:17.6 ./ci/test")
			require.Contains(t, u.log, "this is quay.io/prometheus/prometheus:v3.5.0 --version")
		},
	},
}

// calledByOthers are workflows that can't be run by themselves, and who runs them.
var calledByOthers = map[string]string{"reusable.yml": "reusable-caller.yml"}

// Every example runs as it is shipped, offline: each image is pulled once, no job falls back to a registry, and the gate of
// one that has a gate is passed.
func TestExamples(t *testing.T) {
	gate(t)
	files, err := filepath.Glob("../examples/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := filepath.Base(file)
		if caller, ok := calledByOthers[name]; ok {
			require.Contains(t, exampleRuns, caller)
			continue
		}
		e, ok := exampleRuns[name]
		require.True(t, ok, "%s is not run", name)
		t.Run(strings.TrimSuffix(name, ".yml"), func(t *testing.T) {
			if e.notRun != "" {
				t.Log("not run: " + e.notRun)
			}
			u := newUser(t, name, e)
			if e.prepare != nil {
				e.prepare(t, u)
			}
			u.run(t)
			u.public.requireEachPulledOnce(t, max(1, e.platforms))
			u.requireAllPulled(t)
			u.requireGatePassed(t)
			if e.check != nil {
				e.check(t, u)
			}
		})
	}
}

// requireAllPulled holds the run to have pulled every image of its list.
func (u *user) requireAllPulled(t *testing.T) {
	t.Helper()
	pulled := map[string]bool{}
	for _, r := range u.public.Log().Of(regtest.KindIndex) {
		pulled[r.Repository+":"+r.Reference] = true
	}
	for _, image := range u.images {
		require.True(t, pulled[repositoryOf(image)], image)
	}
}

// gatePassed is what act says of a gate that has run and is green.
var gatePassed = regexp.MustCompile(`/gate *\] 🏁  Job succeeded`)

// requireGatePassed holds the run to have passed the gate that the workflow has.
func (u *user) requireGatePassed(t *testing.T) {
	t.Helper()
	workflow, err := os.ReadFile(u.path("repo", ".github", "workflows", u.workflow))
	require.NoError(t, err)
	require.Equal(t, strings.Contains(string(workflow), "\n  gate:\n"), gatePassed.MatchString(u.log), u.log)
	require.Equal(t, strings.Contains(string(workflow), "{mode: gate,"), strings.Contains(u.log, "| gate: success"))
}

// warmIsFree runs the workflow once more: it asks no registry for anything.
func warmIsFree(t *testing.T, u *user) {
	u.public.ResetLog()
	u.daemon.empty(t)
	u.run(t)
	require.Empty(t, u.public.Log())
}
