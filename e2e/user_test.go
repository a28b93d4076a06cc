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
)

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
