//go:build linux

// Package e2e owns the end-to-end suite: the built pullonce program against a real registry and real Docker daemons,
// all of them on loopback, started here and ended here. It knows the program by its command line; only where
// thousands of runs are needed does it call the packages inside.
//
// The suite runs as root with PULLONCE_E2E=1, as .ci/run does. Debian's daemon is the engine with the classic store. A
// folder named by PULLONCE_E2E_BIN, with dockerd, containerd, containerd-shim-runc-v2 and distribution's registry in it,
// adds a current engine with the containerd store, and a current registry beside Debian's.
package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the suite reads from the environment.
const (
	envGate    = "PULLONCE_E2E"     // "1" runs the suite; what is missing then is a failure
	envWorkDir = "PULLONCE_E2E_DIR" // where everything is kept; default: a temporary folder
	envEngine  = "PULLONCE_E2E_BIN" // programs of a current engine; default: only Debian's is tested
)

func TestMain(m *testing.M) {
	os.Exit(runIn(m))
}

// runIn gives the tests one folder to work in, short enough for the paths of sockets and open to the other users that
// tests run the program as, and removes it.
func runIn(m *testing.M) int {
	if os.Getenv(envGate) != "1" || os.Getenv(envWorkDir) != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "pullonce-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "making the work folder:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Chmod(dir, 0o755), os.Setenv(envWorkDir, dir)); err != nil {
		fmt.Fprintln(os.Stderr, "naming the work folder:", err)
		return 1
	}
	return m.Run()
}

// gate skips the test unless the suite was asked for. There is no other skip in this package.
func gate(t *testing.T) {
	t.Helper()
	if os.Getenv(envGate) != "1" {
		t.Skip("needs root, a registry and Docker daemons: run it with .ci/run, or PULLONCE_E2E=1 go test ./e2e/")
	}
	require.Zero(t, os.Geteuid(), "the end-to-end suite starts daemons: it runs as root")
}

// tempDir is a folder of the test with a short path, removed with all mounts below it when the test ends.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(os.Getenv(envWorkDir), "t")
	require.NoError(t, err)
	t.Cleanup(func() {
		unmountBelow(t, dir)
		require.NoError(t, os.RemoveAll(dir))
	})
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// build makes the program under test, once.
var build = sync.OnceValues(func() (string, error) {
	program := filepath.Join(os.Getenv(envWorkDir), "pullonce")
	cmd := exec.Command("go", "build", "-o", program, "github.com/pullonce/pullonce")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building pullonce: %w\n%s", err, out)
	}
	return program, nil
})
