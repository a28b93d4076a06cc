package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkout is a copy of the launcher in a folder of its own, with fakes of the programs that it calls on its PATH.
type checkout struct {
	dir, path string
	env       map[string]string
}

// echo is a binary that tells how it was started, and ends as FAKE_EXIT says.
const echo = `#!/bin/sh
printf '%s' "${0##*/}"
for arg; do printf ' <%s>' "$arg"; done
echo
exit "${FAKE_EXIT:-0}"
`

// envPlayed has the test binary play a release's binary.
const envPlayed = "PULLONCE_TEST_PLAYED"

// playBinary does what echo does, or ends by the signal that FAKE_SIGNAL asks for.
func playBinary() int {
	if os.Getenv("FAKE_SIGNAL") != "" {
		_ = exec.Command("kill", "-TERM", strconv.Itoa(os.Getpid())).Run()
		select {}
	}
	fmt.Print(filepath.Base(os.Args[0]))
	for _, arg := range os.Args[1:] {
		fmt.Printf(" <%s>", arg)
	}
	fmt.Println()
	code, _ := strconv.Atoi(os.Getenv("FAKE_EXIT"))
	return code
}

// fakeOd tells the first 20 bytes of a program for systems and machines that are not this one.
const fakeOd = `#!/bin/sh
for file; do :; done
case $file in
*-linux-amd64) echo ' 7f 45 4c 46 02 01 01 00 00 00 00 00 00 00 00 00 02 00 3e 00' ;;
*-linux-arm64) echo ' 7f 45 4c 46 02 01 01 00 00 00 00 00 00 00 00 00 02 00 b7 00' ;;
*-darwin-amd64) echo ' cf fa ed fe 07 00 00 01 03 00 00 00 02 00 00 00 0e 00 00 00' ;;
*-darwin-arm64) echo ' cf fa ed fe 0c 00 00 01 00 00 00 00 02 00 00 00 0e 00 00 00' ;;
*.exe) echo ' 4d 5a 90 00 03 00 04 00 00 00 00 00 00 00 8b 00 00 00 00 00' ;;
esac
`

// fakeGo is a go that builds echo, and tells in which folder and with which settings.
const fakeGo = `#!/bin/sh
[ -z "${FAKE_GO_FAILS-}" ] || { echo "main.go:1:1: does not compile"; exit 1; }
echo "go in $(pwd -P): GOOS=$GOOS GOARCH=$GOARCH CGO_ENABLED=$CGO_ENABLED GOFLAGS=$GOFLAGS GOWORK=$GOWORK" >&2
while [ $# -gt 0 ]; do [ "$1" != -o ] || out=$2; shift; done
cp "$FAKE_ECHO" "$out" && chmod +x "$out"
`

func newCheckout(t *testing.T, system, name string, dist ...string) *checkout {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	c := &checkout{dir: filepath.Join(base, "a checkout"), path: filepath.Join(base, "path")}
	launcher, err := os.ReadFile("bin/pullonce")
	require.NoError(t, err)
	write(t, filepath.Join(c.dir, "bin", "pullonce"), string(launcher))
	self, err := os.Executable()
	require.NoError(t, err)
	for _, name := range dist {
		require.NoError(t, os.MkdirAll(filepath.Join(c.dir, "dist"), 0o755))
		require.NoError(t, os.Symlink(self, filepath.Join(c.dir, "dist", name)))
	}
	if native := system == "Linux" && runtime.GOOS == "linux" && (name == machine() || name == runtime.GOARCH); !native {
		write(t, filepath.Join(c.path, "od"), fakeOd)
	}
	write(t, filepath.Join(c.path, "uname"), `#!/bin/sh
case $1 in -s) echo '`+system+`' ;; -m) echo '`+name+`' ;; esac
`)
	write(t, filepath.Join(base, "echo"), echo)
	c.env = map[string]string{
		"PATH": c.path + ":/usr/bin:/bin", "RUNNER_TEMP": filepath.Join(base, "runner temp"), "FAKE_ECHO": filepath.Join(base, "echo"),
		envPlayed: "1", "GOFLAGS": "-mod=vendor", "GOOS": "plan9", "CDPATH": "/",
	}
	return c
}

func (c *checkout) withGo(t *testing.T) *checkout {
	t.Helper()
	write(t, filepath.Join(c.path, "go"), fakeGo)
	return c
}

// run starts the launcher as argv says, with env on top, and returns its streams and exit code.
func (c *checkout) run(t *testing.T, env map[string]string, argv ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir = c.dir
	all := maps.Clone(c.env)
	maps.Copy(all, env)
	for name, value := range all {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else {
		require.NoError(t, err)
	}
	return out.String(), errs.String(), code
}

func (c *checkout) launcher() string { return filepath.Join(c.dir, "bin", "pullonce") }

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
}

// machine is what uname calls this machine.
func machine() string {
	if runtime.GOARCH == "arm64" {
		return "aarch64"
	}
	return "x86_64"
}

// canPlay says whether the shell can be made to believe that it is on another machine: busybox asks itself, not the PATH.
func canPlay(shell, system, name string) bool {
	return !strings.HasPrefix(shell, "busybox") || system == "Linux" && name == machine()
}

// shells are the POSIX shells of this machine.
func shells(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, argv := range [][]string{{"sh"}, {"bash"}, {"bash", "--posix"}, {"dash"}, {"busybox", "sh"}, {"mksh"}, {"zsh", "--emulate", "sh"}} {
		if path, err := exec.LookPath(argv[0]); err == nil {
			found[strings.Join(argv, " ")] = append([]string{path}, argv[1:]...)
		}
	}
	require.Contains(t, found, "sh")
	return found
}

func TestLauncherPicksTheBinaryOfTheMachine(t *testing.T) {
	t.Parallel()
	tests := []struct{ system, machine, binary string }{
		{"Linux", "x86_64", "pullonce-linux-amd64"},
		{"Linux", "amd64", "pullonce-linux-amd64"},
		{"Linux", "aarch64", "pullonce-linux-arm64"},
		{"Darwin", "arm64", "pullonce-darwin-arm64"},
		{"Darwin", "x86_64", "pullonce-darwin-amd64"},
		{"MINGW64_NT-10.0-26100", "x86_64", "pullonce-windows-amd64.exe"},
		{"MSYS_NT-10.0-20348", "x86_64", "pullonce-windows-amd64.exe"},
		{"CYGWIN_NT-10.0", "aarch64", "pullonce-windows-arm64.exe"},
	}
	for name, shell := range shells(t) {
		for _, tt := range tests {
			if !canPlay(name, tt.system, tt.machine) {
				continue
			}
			t.Run(name+"/"+tt.system+"/"+tt.machine, func(t *testing.T) {
				t.Parallel()
				c := newCheckout(t, tt.system, tt.machine, tt.binary)
				out, errs, code := c.run(t, map[string]string{"FAKE_EXIT": "7"}, append(shell, c.launcher(), "load", "a b", "", "*", "$x")...)
				require.Equal(t, tt.binary+" <load> <a b> <> <*> <$x>\n", out)
				require.Empty(t, errs)
				require.Equal(t, 7, code)
			})
		}
	}
}

func TestLauncherIsFoundByEveryName(t *testing.T) {
	t.Parallel()
	binary := "pullonce-linux-" + runtime.GOARCH
	c := newCheckout(t, "Linux", machine(), binary)
	require.NoError(t, os.Symlink(c.launcher(), filepath.Join(c.path, "absolute")))
	require.NoError(t, os.Symlink("absolute", filepath.Join(c.path, "relative")))
	for name, argv := range map[string][]string{
		"absolute path":     {c.launcher()},
		"relative path":     {"bin/pullonce"},
		"by a link":         {filepath.Join(c.path, "absolute")},
		"by two links":      {filepath.Join(c.path, "relative")},
		"on the PATH":       {"/bin/sh", "-c", `PATH="$PWD/bin:$PATH" pullonce version`},
		"bare name":         {"/bin/sh", "-c", "cd ./bin && sh pullonce version"},
		"empty environment": {"/usr/bin/env", "-i", envPlayed + "=1", c.launcher(), "version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, errs, code := c.run(t, nil, argv...)
			require.Equal(t, binary, strings.Fields(out)[0])
			require.Empty(t, errs)
			require.Zero(t, code)
		})
	}
}

func TestLauncherBecomesTheBinary(t *testing.T) {
	t.Parallel()
	c := newCheckout(t, "Linux", machine(), "pullonce-linux-"+runtime.GOARCH)
	cmd := exec.CommandContext(t.Context(), c.launcher())
	cmd.Env = []string{"PATH=" + c.env["PATH"], envPlayed + "=1", "FAKE_SIGNAL=1"}
	require.ErrorContains(t, cmd.Run(), "signal: terminated", "a signal to the step must reach the binary, and its end must show")
}

func TestLauncherSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, system, machine string
		dist                  []string
		want                  string // with DIR for the checkout
	}{
		{"system", "SunOS", "x86_64", nil, "pullonce does not run on SunOS|use a Linux, macOS or Windows runner"},
		{"machine", "Linux", "s390x", nil, "pullonce does not run on s390x|use an amd64 or arm64 runner"},
		{
			"no binary", "Linux", machine(), []string{"pullonce-linux-riscv64"},
			"this release has no binary for linux/" + runtime.GOARCH + "|see which are in DIR/dist",
		},
		{
			"no Go", "Linux", machine(), nil,
			"this is a checkout without binaries, and there is no Go to build one|use a release tag, or run actions/setup-go first",
		},
	}
	for name, shell := range shells(t) {
		for _, tt := range tests {
			if !canPlay(name, tt.system, tt.machine) {
				continue
			}
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				c := newCheckout(t, tt.system, tt.machine, tt.dist...)
				c.isolate(t)
				what, hint, _ := strings.Cut(strings.ReplaceAll(tt.want, "DIR", c.dir), "|")
				argv := append(shell, c.launcher())

				out, errs, code := c.run(t, nil, append(argv, "prime")...)
				require.Empty(t, out)
				require.Equal(t, "error: "+what+"\nhint: "+hint+"\n", errs)
				require.Equal(t, 3, code)

				workflow := map[string]string{"GITHUB_ACTIONS": "true", "PULLONCE_INPUT_MODE": "prime"}
				out, errs, code = c.run(t, workflow, append(argv, "action")...)
				require.Equal(t, "::error title=pullonce::"+what+". "+hint+"\n", out)
				require.Empty(t, errs)
				require.Equal(t, 3, code)

				workflow["PULLONCE_INPUT_MODE"] = "load"
				out, _, code = c.run(t, workflow, append(argv, "action")...)
				require.Equal(t, "::warning title=pullonce::"+what+". "+hint+"\n", out)
				require.Zero(t, code, "a lane never fails a job that could have run")
			})
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestLauncherStartsNoDamagedBinary has files that a shell would take for scripts, which succeed without a word.
func TestLauncherStartsNoDamagedBinary(t *testing.T) {
	t.Parallel()
	elf := func(machine byte) string {
		return "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 11) + string([]byte{machine, 0})
	}
	other := byte(0xb7) // EM_AARCH64
	if runtime.GOARCH == "arm64" {
		other = 0x3e // EM_X86_64
	}
	for shellName, shell := range shells(t) {
		for name, text := range map[string]string{
			"empty": "", "script": "#!/bin/sh\nexit 0\n", "cut in its head": "\x7fELF\x02\x01", "of another machine": elf(other),
			"of another system": "MZ" + strings.Repeat("x", 30), "32 bits": "\x7fELF\x01" + strings.Repeat("\x00", 30),
		} {
			t.Run(shellName+"/"+name, func(t *testing.T) {
				t.Parallel()
				c := newCheckout(t, "Linux", machine())
				_ = os.Remove(filepath.Join(c.path, "od")) // the real one
				binary := filepath.Join(c.dir, "dist", "pullonce-linux-"+runtime.GOARCH)
				write(t, binary, text)
				what, hint := binary+" is no program for linux/"+runtime.GOARCH, "the copy of the release is damaged: check it out again with git"
				for _, mode := range []string{"gate", "prime"} {
					out, errs, code := c.run(t, nil, append(shell, c.launcher(), mode)...)
					require.Empty(t, out)
					require.Equal(t, "error: "+what+"\nhint: "+hint+"\n", errs)
					require.Equal(t, 3, code)
				}
				out, errs, code := c.run(t, map[string]string{"GITHUB_ACTIONS": "true"}, append(shell, c.launcher(), "load")...)
				require.Equal(t, "::warning title=pullonce::"+what+". "+hint+"\n", out)
				require.Empty(t, errs)
				require.Zero(t, code, "a lane never fails a job that could have run")
			})
		}
	}
}

func TestLauncherEscapesWhatItSaysToTheRunner(t *testing.T) {
	t.Parallel()
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCheckout(t, "Linux", machine(), "pullonce-linux-riscv64")
			moved := filepath.Join(filepath.Dir(c.dir), "100%0A\n::error::boo\r* of it")
			require.NoError(t, os.Rename(c.dir, moved))
			c.dir = moved
			out, errs, code := c.run(t, map[string]string{"GITHUB_ACTIONS": "true"}, append(shell, c.launcher(), "prime")...)
			require.Equal(t, "::error title=pullonce::this release has no binary for linux/"+runtime.GOARCH+". see which are in "+
				filepath.Dir(moved)+"/100%250A%0A::error::boo%0D* of it/dist\n", out)
			require.Empty(t, errs)
			require.Equal(t, 3, code)
		})
	}
}

// isolate leaves only what the launcher needs on the PATH, so that the machine's own Go is not found.
func (c *checkout) isolate(t *testing.T) {
	t.Helper()
	for _, name := range []string{"readlink", "mkdir", "mktemp", "mv", "rm", "cksum", "tr", "cp", "chmod", "sh", "od"} {
		target, err := exec.LookPath(name)
		require.NoError(t, err)
		if link := filepath.Join(c.path, name); !exists(link) {
			require.NoError(t, os.Symlink(target, link))
		}
	}
	c.env["PATH"] = c.path
}

func TestLauncherBuildsACheckoutWithoutBinaries(t *testing.T) {
	t.Parallel()
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCheckout(t, "Linux", machine()).withGo(t)
			var group sync.WaitGroup
			for range 4 { // jobs of one runner share its folders
				group.Go(func() {
					out, errs, code := c.run(t, nil, append(shell, c.launcher(), "plan", "a b")...)
					if code != 0 || out != "pullonce <plan> <a b>\n" {
						t.Errorf("exit code %d, %q, %q", code, out, errs)
					}
					if want := "go in " + c.dir + ": GOOS=linux GOARCH=" + runtime.GOARCH + " CGO_ENABLED=0 GOFLAGS= GOWORK=off\n"; errs != want {
						t.Errorf("built with %q, not %q", errs, want)
					}
				})
			}
			group.Wait()
			require.Equal(t, []string{"pullonce"}, c.built(t), "no rest of a build is left")
		})
	}
}

func TestLauncherSaysThatABuildFailed(t *testing.T) {
	t.Parallel()
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCheckout(t, "Linux", "x86_64").withGo(t)
			_, errs, code := c.run(t, map[string]string{"FAKE_GO_FAILS": "1"}, append(shell, c.launcher(), "plan")...)
			require.Equal(t, "main.go:1:1: does not compile\nerror: building pullonce from "+c.dir+
				" did not work\nhint: the compiler's words are above; go.mod names the Go it needs\n", errs)
			require.Equal(t, 3, code)
			require.Empty(t, c.built(t))

			write(t, c.env["RUNNER_TEMP"]+"-file", "")
			_, errs, code = c.run(t, map[string]string{"RUNNER_TEMP": c.env["RUNNER_TEMP"] + "-file"}, append(shell, c.launcher(), "plan")...)
			require.Contains(t, errs, "error: building pullonce from ")
			require.Equal(t, 3, code)
		})
	}
}

// built are the names in the folder where the launcher keeps what it builds.
func (c *checkout) built(t *testing.T) []string {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(c.env["RUNNER_TEMP"], "pullonce-*"))
	require.NoError(t, err)
	require.Len(t, folders, 1)
	entries, err := os.ReadDir(folders[0])
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return slices.Sorted(slices.Values(names))
}
