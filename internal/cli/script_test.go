package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pullonce/pullonce/internal/cli"
	"github.com/pullonce/pullonce/internal/preflight/apitest"
	"github.com/pullonce/pullonce/internal/regtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pullonce": pullonce})
}

// pullonce is the program as main starts it.
func pullonce() {
	os.Exit(int(cli.Main(context.Background(), cli.Process{
		Args: os.Args[1:], LookupEnv: os.LookupEnv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Signals: subscribe,
	})))
}

// TestScripts runs one script for each promise to the user.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setUp,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"requests": requests, "refuse": refuse, "corrupt": corrupt, "runner": runner, "move": move,
			"api": api, "questions": questions,
		},
	})
}

type registryKey struct{}

// setUp gives each script a registry of its own, $REGISTRY, with a few images, and a home without credentials.
func setUp(env *testscript.Env) error {
	reg := regtest.New(regtest.Options{})
	small := regtest.RandomImage(1, 2, 20_000)
	reg.Add("library/redis:7", regtest.NewIndex(small, regtest.Attestation(small)))
	reg.Add("library/nginx:1", regtest.RandomImage(2, 1, 10_000))
	reg.Add("charts/app:1", regtest.Chart(map[string]string{"app/Chart.yaml": "name: app"}))
	server, err := reg.Start(regtest.Listen{Addr: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	env.Defer(func() { _ = server.Close() })
	env.Values[registryKey{}] = reg
	env.Values[apiKey{}] = new(apitest.Server)
	env.Setenv("REGISTRY", server.Host)
	env.Setenv("DIGEST", reg.Add("library/pinned:1", regtest.RandomImage(3, 1, 100)).String())
	env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
	env.Setenv("XDG_CACHE_HOME", filepath.Join(env.WorkDir, "cache"))
	return expandPins(env)
}

// expandPins writes the registry's address into the files of the script, where they say REGISTRY.
func expandPins(env *testscript.Env) error {
	files, err := filepath.Glob(filepath.Join(env.WorkDir, "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // a folder
		}
		expanded := bytes.ReplaceAll(data, []byte("REGISTRY"), []byte(env.Getenv("REGISTRY")))
		expanded = bytes.ReplaceAll(expanded, []byte("DIGEST"), []byte(env.Getenv("DIGEST")))
		if err := os.WriteFile(file, expanded, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func registryOf(ts *testscript.TestScript) *regtest.Registry {
	return ts.Value(registryKey{}).(*regtest.Registry)
}

// requests N: the registry has seen N requests since it was last asked.
func requests(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: requests N")
	}
	reg := registryOf(ts)
	if got := fmt.Sprint(len(reg.Log())); got != args[0] {
		ts.Fatalf("the registry saw %s requests, want %s: %v", got, args[0], reg.Log())
	}
	reg.ResetLog()
}

// refuse STATUS [BODY-FILE]: from now on the registry answers everything so.
func refuse(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: refuse STATUS [BODY-FILE]")
	}
	var status int
	_, err := fmt.Sscan(args[0], &status)
	ts.Check(err)
	body := http.StatusText(status)
	if len(args) > 1 {
		body = ts.ReadFile(args[1])
	}
	registryOf(ts).Always(regtest.Match{}, regtest.Answer(status, "application/json", body))
}

// move NAME: the tag now names another image.
func move(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: move NAME")
	}
	registryOf(ts).Add(args[0], regtest.RandomImage(99, 1, 1000))
}

// corrupt GLOB: one byte near the end of each file is flipped.
func corrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: corrupt GLOB")
	}
	files, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(files) == 0 {
		ts.Fatalf("nothing matches %s", args[0])
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		ts.Check(err)
		data[len(data)-3000] ^= 1
		ts.Check(os.WriteFile(file, data, 0o644))
	}
}

// runner: from now on the script is a step of a workflow, with the environment that a runner gives a run: step.
func runner(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: runner")
	}
	temp := ts.MkAbs("runner_temp")
	ts.Check(os.MkdirAll(temp, 0o755))
	for _, name := range []string{"output", "summary"} {
		ts.Check(os.WriteFile(filepath.Join(temp, name), nil, 0o644))
	}
	for name, value := range map[string]string{
		"GITHUB_ACTIONS": "true", "CI": "true", "RUNNER_OS": "Linux", "RUNNER_TEMP": temp,
		"GITHUB_OUTPUT": filepath.Join(temp, "output"), "GITHUB_STEP_SUMMARY": filepath.Join(temp, "summary"),
		"GITHUB_WORKSPACE": ts.MkAbs("."), "GITHUB_EVENT_NAME": "push",
	} {
		ts.Setenv(name, value)
	}
}

// TestHelpNamesEveryCommand keeps the usage whole: it is what a newcomer reads first.
func TestHelpNamesEveryCommand(t *testing.T) {
	t.Parallel()
	help := runHelp(t)
	for _, command := range []string{"plan", "prime", "load", "gate", "audit", "preflight", "inspect", "prune", "demo", "retry", "simulate", "version"} {
		if !strings.Contains(help, "\n  "+command+" ") {
			t.Errorf("help does not name %q:\n%s", command, help)
		}
	}
}

// runHelp is what pullonce --help prints.
func runHelp(t *testing.T) string {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "help"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	code := cli.Main(t.Context(), cli.Process{
		Args: []string{"--help"}, LookupEnv: func(string) (string, bool) { return "", false }, Stdout: out, Stderr: out,
	})
	if code != cli.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	help, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(help)
}
