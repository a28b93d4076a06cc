//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cachetest"
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

// Every example runs as it is shipped, offline: each image is pulled once, and no job falls back to a registry.
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

// warmIsFree runs the workflow once more: it asks no registry for anything.
func warmIsFree(t *testing.T, u *user) {
	u.public.ResetLog()
	u.daemon.empty(t)
	u.run(t)
	require.Empty(t, u.public.Log())
}

// user is somebody's repository with an example as its workflow, and all that a run of it reaches.
type user struct {
	example
	workflow string
	images   []string
	dir      string // the repository is in repo, the rest beside it
	daemon   *daemon
	public   *public
	cache    *cachetest.Server
	nodes    *kindPlace
	log      string // of the last run
}

// newUser makes the repository of testdata/user, with the examples' list and workflows.
func newUser(t *testing.T, workflow string, e example) *user {
	t.Helper()
	u := &user{example: e, workflow: workflow, dir: tempDir(t), images: imagesOf(t, e)}
	u.daemon = engine{name: "classic"}.start(t)
	u.public = startPublic(t, u.images...)
	var err error
	u.cache, err = cachetest.Start(cachetest.New(cachetest.Options{ReadOnly: e.readOnly, Blobs: e.blobs(t)}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, u.cache.Close()) })

	require.NoError(t, os.CopyFS(u.path("repo"), os.DirFS("testdata/user")))
	require.NoError(t, os.CopyFS(u.path("repo", ".github", "workflows"), os.DirFS("../examples")))
	require.NoError(t, os.Rename(u.path("repo", ".github", "workflows", "images.txt"), u.path("repo", "images.txt")))
	require.NoError(t, os.CopyFS(u.path("home", ".docker"), os.DirFS("testdata/programs")))
	require.NoError(t, os.MkdirAll(u.path("stand-in"), 0o755))
	writeFile(t, u.dir, "event.json", map[bool]string{true: e.payload, false: "{}"}[e.payload != ""])
	for _, argv := range [][]string{{"init", "--quiet", "--initial-branch", "main"}, {"add", "."}, {"commit", "--quiet", "--message", "Begin"}} {
		machine(t, append([]string{"git", "-C", u.path("repo"), "-c", "user.name=e2e", "-c", "user.email=e2e@localhost"}, argv...)...)
	}
	return u
}

// blobs are where the cache service keeps them; nil is in memory.
func (e example) blobs(t *testing.T) cachetest.Blobs {
	t.Helper()
	if !e.azurite {
		return nil
	}
	folder, err := os.UserCacheDir()
	require.NoError(t, err)
	modules, err := cachetest.InstallModules(t.Context(), "cache", filepath.Join(folder, "pullonce-ci"))
	require.NoError(t, err)
	a, err := cachetest.StartAzurite(t.Context(), cachetest.AzuriteOptions{Modules: filepath.Join(modules, "node_modules"), Dir: tempDir(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

// imagesOf are the images of the examples' list as an example changes them.
func imagesOf(t *testing.T, e example) []string {
	t.Helper()
	list, err := os.ReadFile("../examples/images.txt")
	require.NoError(t, err)
	images := append([]string(nil), e.extra...)
	for line := range strings.Lines(string(list)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" && !slices.Contains(e.without, fields[0]) {
			images = append(images, fields[0])
		}
	}
	return images
}

func (u *user) path(names ...string) string {
	return filepath.Join(append([]string{u.dir}, names...)...)
}

// run runs the workflow, which is to be green and to say of nothing that it went wrong.
func (u *user) run(t *testing.T) {
	t.Helper()
	program, err := exec.LookPath("act")
	require.NoError(t, err, "the end-to-end suite needs act; .ci/run installs it")
	event := "push"
	if u.event != "" {
		event = u.event
	}
	args := append([]string{program, event, "--workflows", filepath.Join(".github", "workflows", u.workflow), "--eventpath", u.path("event.json"),
		"--action-offline-mode", "--no-cache-server"}, u.args...)
	for _, label := range []string{"ubuntu-latest", "ubuntu-24.04", "self-hosted"} {
		args = append(args, "--platform", label+"=-self-hosted")
	}
	for action, dir := range standIns(t) {
		args = append(args, "--local-repository", action+"="+dir)
	}
	args = append(args, "--local-repository", "acme/workflows@v1="+u.path("repo"))
	// The shared folder of the runners is one of this run alone.
	cmd := exec.CommandContext(t.Context(), "unshare", append([]string{"--mount", "sh", "-euc", `mount --bind "$0" /srv; exec "$@"`, u.path("srv")}, args...)...)
	cmd.Dir, cmd.Env = u.path("repo"), u.environment(t)
	require.NoError(t, os.MkdirAll(u.path("srv"), 0o755))
	log, err := cmd.CombinedOutput()
	u.log = string(log)
	t.Log(u.log)
	require.NoError(t, err)
	for _, image := range u.images {
		require.True(t, u.silent || strings.Contains(u.log, "this is "+image), image)
	}
	for _, bad := range []string{"degraded", "failure", "::warning", "::error", cachetest.Token} {
		require.NotContains(t, u.log, bad)
	}
	require.Empty(t, machine(t, "git", "-C", u.path("repo"), "status", "--porcelain"), "the run changed the checkout")
}

// environment is what the machine of the runner gives to every step. Unlike the runner, act hands the service's token to
// run: steps, too; what our composite is given by its first step goes before that.
func (u *user) environment(t *testing.T) []string {
	t.Helper()
	return append(u.public.environment(),
		"PATH="+u.path("home", ".docker")+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+u.path("home"), "DOCKER_HOST="+u.daemon.host(),
		"ACT_DISABLE_VERSION_CHECK=1", "STAND_IN="+u.path("stand-in"), "GOPROXY=off", "GOCACHE="+machine(t, "go", "env", "GOCACHE"),
		"ACTIONS_RESULTS_URL="+u.cache.URL, "ACTIONS_RUNTIME_TOKEN="+cachetest.Token)
}

// githubAction is an action of GitHub's that examples and action.yml use, by commit.
var githubAction = regexp.MustCompile(`uses: (actions/([a-z-]+))(?:/[a-z]+)?(@[0-9a-f]{40})`)

// standIns are the folders that take the place of actions: our release, and what testdata has of GitHub's.
func standIns(t *testing.T) map[string]string {
	t.Helper()
	stand := map[string]string{"pullonce/pullonce@v1": needRelease(t)}
	files, err := filepath.Glob("../examples/*.yml")
	require.NoError(t, err)
	for _, file := range append(files, "../action.yml") {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range githubAction.FindAllStringSubmatch(string(data), -1) {
			if m[2] == "checkout" {
				continue // act copies the repository itself
			}
			dir, err := filepath.Abs(filepath.Join("../testdata", m[2]))
			require.NoError(t, err)
			require.FileExists(t, filepath.Join(dir, "action.yml"))
			stand[m[1]+m[3]] = dir
		}
	}
	return stand
}
