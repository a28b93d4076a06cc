package audit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/audit"
	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/reference"
)

// pod is a manifest of a pod with the images.
func pod(images ...string) string {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n")
	for _, image := range images {
		fmt.Fprintf(&b, "    - image: %s\n", image)
	}
	return b.String()
}

// run audits standard input against pins, one a word.
func run(t *testing.T, stdin, pins string) audit.Result {
	t.Helper()
	list, err := pin.Load(pin.Options{Images: strings.ReplaceAll(pins, " ", "\n")})
	require.NoError(t, err)
	result, err := audit.Run(audit.Options{Paths: []string{audit.Stdin}, Stdin: strings.NewReader(stdin), Pins: list.Pins})
	require.NoError(t, err)
	return result
}

// kinds are the kinds of the findings about images, in order.
func kinds(r audit.Result) string {
	var all []string
	for _, f := range r.Findings {
		all = append(all, string(f.Kind))
	}
	return strings.Join(all, " ")
}

func TestWhatAPinMakesAvailable(t *testing.T) {
	t.Parallel()
	one, two := "@sha256:"+strings.Repeat("1", 64), "@sha256:"+strings.Repeat("2", 64)
	for _, c := range []struct{ rendered, pinned, want string }{
		{"redis:7", "redis:7", ""},
		{"docker.io/library/redis:7", "redis:7", ""},
		{"redis:7", "redis:7" + one, ""},
		{"redis:7" + one, "redis:7" + one, ""},
		{"redis" + one, "redis:7" + one, ""},
		{"redis:7" + one, "redis" + one, ""},
		{"redis:8" + one, "redis:7" + one, ""},
		{"redis:7", "redis:8", "drift"},
		{"redis:7" + one, "redis:7", "drift"},
		{"redis:7" + one, "redis:7" + two, "drift"},
		{"redis:7", "redis" + one, "drift"},
		{"redis:7", "valkey:7", "unpinned unused"},
		{"ghcr.io/a/redis:7", "a/redis:7", "unpinned"},
		{"redis:7", "redis:8 redis:7", "unused"},
		{"redis:7", "redis:7 redis:7" + one, ""},
	} {
		require.Equal(t, c.want, kinds(run(t, pod(c.rendered), c.pinned)), "%s against %s", c.rendered, c.pinned)
	}
}

func TestADriftNamesTheNearestPin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rendered, pins, want string }{
		{"8.2.4", "7.4.1 8.2.3 8.1.9", "8.2.3"},
		{"8.2.4", "8.2.9 8.2.3", "8.2.3"},
		{"8.2.4-alpine", "8.2.3 8.2.3-alpine", "8.2.3-alpine"},
		{"v1.10", "v1.2 v1.9", "v1.9"},
		{"10", "9 2 canary", "9"},
		{"canary", "9 nightly", "9"},
		{"latest", "99999999999999999999999 1", "99999999999999999999999"},
	} {
		var pins []string
		for tag := range strings.FieldsSeq(c.pins) {
			pins = append(pins, "redis:"+tag)
		}
		result := run(t, pod("redis:"+c.rendered), strings.Join(pins, " "))
		require.Contains(t, result.Findings[0].Message, fmt.Sprintf("redis %s is rendered, %s is pinned at images input:", c.rendered, c.want))
	}
}

func TestADriftSaysAllThatItTakesToMendIt(t *testing.T) {
	t.Parallel()
	f := run(t, pod("redis:8.2.4"), "nginx:1 redis:8.2.3").Findings[0]
	require.Equal(t, audit.Drift, f.Kind)
	require.Equal(t, "-:5:14: redis 8.2.4 is rendered, 8.2.3 is pinned at images input:2", f.String())
	require.Equal(t, "write redis:8.2.4 there", f.Hint)
	require.Equal(t, &pin.Position{File: pin.Inline, Line: 2, Column: 1}, f.Pin)
}

func TestAnImageInManyPlacesIsOneFinding(t *testing.T) {
	t.Parallel()
	result := run(t, strings.Repeat("---\n"+pod("redis:8", "nginx:1"), 30), "nginx:1")
	require.Len(t, result.Findings, 1)
	require.Len(t, result.Findings[0].Also, 29)
	require.Equal(t, 2, result.Images)
	require.Equal(t, 60, result.Places)
}

func TestRegistriesAreHeldToHostAndPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		allow, image string
		want         bool
	}{
		{"docker.io", "redis:1", true},
		{"index.docker.io", "redis:1", true},
		{"docker.io/library", "redis:1", true},
		{"docker.io/lib", "redis:1", false},
		{"ghcr.io/acme/", "ghcr.io/acme/a/b:1", true},
		{"ghcr.io/acme", "ghcr.io/acme:1", true},
		{"*.example.com", "a.example.com/x:1", true},
		{"*.example.com", "evil.io/a.example.com/x:1", false},
		{"*/acme", "evil.io/x/acme:1", false},
		{"GHCR.io", "ghcr.io/a:1", true},
		{"localhost:*", "localhost:5000/a:1", true},
	} {
		result, err := audit.Run(audit.Options{
			Paths: []string{"-"}, Stdin: strings.NewReader(c.image), AllowRegistries: []string{c.allow},
		})
		require.NoError(t, err)
		require.Equal(t, !c.want, strings.Contains(kinds(result), string(audit.RegistryNotAllowed)), "%s under %s", c.image, c.allow)
	}
}

func TestInputsThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string]audit.Options{
		`allow-registries: "https://ghcr.io" has a scheme: write it as in ghcr.io`:  {AllowRegistries: []string{"https://ghcr.io"}},
		`allow-registries: "/" names no registry`:                                   {AllowRegistries: []string{"/"}},
		`image-paths: "a." has an empty part: write it as in Prometheus:spec.image`: {ImagePaths: []string{"a."}},
	} {
		opts.Paths, opts.Stdin = []string{"-"}, strings.NewReader("redis:7")
		_, err := audit.Run(opts)
		require.EqualError(t, err, want)
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		stdin io.Reader
		want  string
	}{
		"nothing":        {nil, "-: nothing is written in it: what should have written it may have failed"},
		"UTF-16":         {strings.NewReader("\xff\xfea\x00"), "-: no text in UTF-8: it is UTF-16"},
		"error":          {iotest.ErrReader(broken), "-: broken"},
		"later error":    {io.MultiReader(strings.NewReader("--- {}\n"+strings.Repeat("# x\n", 50_000)), iotest.ErrReader(broken)), "-: reading: broken"},
		"binary":         {strings.NewReader("a: \xff\n"), "-:1:1: no valid YAML"},
		"long line":      {strings.NewReader(strings.Repeat("a", 2<<20)), "-: bufio.Scanner: token too long"},
		"deep manifest":  {strings.NewReader("apiVersion: v1\nkind: X\nx: " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000)), "-:3:504: nested deeper than 500 levels"},
		"no end of them": {strings.NewReader(strings.Repeat("--- }\n", 2_000)), "more than 1000 errors: the rest is not shown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := audit.Run(audit.Options{FS: fstest.MapFS{}, Paths: []string{"-", "-"}, Stdin: c.stdin})
			require.ErrorContains(t, err, c.want)
			require.ErrorAs(t, err, new(pin.Errors))
		})
	}
	refuses := fsFunc(func(name string) (fs.File, error) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	})
	_, err := audit.Run(audit.Options{FS: refuses, Paths: []string{"a.yaml", "b/*.yaml"}})
	require.EqualError(t, err, "a.yaml: permission denied\nb/*.yaml: reading the glob: permission denied")
}

type fsFunc func(string) (fs.File, error)

func (f fsFunc) Open(name string) (fs.File, error) { return f(name) }

func TestAFileIsAuditedOnce(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{"a/x.yaml": {Data: []byte(pod("redis:7"))}, "a/empty.yaml": {Data: []byte("a: b\n")}}
	result, err := audit.Run(audit.Options{FS: fsys, Paths: []string{"a/x.yaml", "./a/*.yaml", "**/x.yaml", "a/empty.yaml"}})
	require.NoError(t, err)
	require.Equal(t, 1, result.Places)
}

// FuzzRun audits whatever there is in every form: it must come to an end, each finding must have its place, and pinning
// what was found must leave nothing unpinned.
func FuzzRun(f *testing.F) {
	for _, seed := range []string{
		pod("redis:7", "'{{ x }}'", "a@b", "*c"), "services: {a: {image: \"redis:${V:-7}\", pull_policy: always}}", "FROM a:1 AS b\nCOPY --from=c x y\nRUN <<E\nE",
		"redis:7 a=b # c\n\uFEFFx", "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{\"spec\": {\"image\": {\"name\": \"a\", \"tag\": 1}}}]}",
		"apiVersion: v1\nkind: X\nspec:\n  image: [a, {repository: b}, ~]\n  volumes: [{image: {reference: c}}]\n", "---\n...\n--- }\n%YAML\n---\n",
		"a: &a {image: x}\nkind: K\napiVersion: v\nspec: {<<: *a, containers: [*a, *a]}\n", "# syntax=a/b:1\nARG A=$B\nFROM $A\\\n  as x", "[::1]:5000/a:1\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{"a.yaml", "Dockerfile", "any"} {
			opts := audit.Options{
				FS: fstest.MapFS{name: {Data: []byte(text)}}, Paths: []string{name}, ImagePaths: []string{"spec.image", "*:spec.*"},
			}
			result, err := audit.Run(opts)
			if err != nil {
				require.ErrorAs(t, err, new(pin.Errors))
				continue
			}
			for _, found := range result.Findings {
				require.Positive(t, found.Line)
				require.Positive(t, found.Column)
				require.NotEmpty(t, found.Message)
				if found.Kind == audit.Unpinned {
					opts.Pins = append(opts.Pins, pin.Pin{Reference: reference.MustParse(found.Image)})
				}
			}
			_, err = json.Marshal(result.Findings)
			require.NoError(t, err)
			again, err := audit.Run(opts)
			require.NoError(t, err)
			for _, found := range again.Findings {
				require.NotContains(t, []audit.Kind{audit.Unpinned, audit.Drift, audit.Unused}, found.Kind, "%s", found)
			}
		}
	})
}
