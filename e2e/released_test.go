//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// released makes a checkout of the action as a release tag has it, once: with the binary that "make dist" builds, and
// without a Go that is needed.
var released = sync.OnceValues(func() (string, error) {
	root, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("finding the checkout: %w", err)
	}
	dir := filepath.Join(os.Getenv(envWorkDir), "released")
	for _, argv := range [][]string{
		{"git", "clone", "--quiet", "--no-local", string(root[:len(root)-1]), dir},
		{"make", "--directory", dir, "--no-print-directory", "dist", "TARGETS=linux-" + runtime.GOARCH},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", argv, err, out)
		}
	}
	return dir, os.RemoveAll(filepath.Join(dir, ".git"))
})

// needRelease is released for a test that can't do without.
func needRelease(t *testing.T) string {
	t.Helper()
	dir, err := released()
	require.NoError(t, err)
	return dir
}
