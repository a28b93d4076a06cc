package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hostFS opens files by the paths that a person writes: relative to the working directory, absolute, or with "..".
type hostFS struct {
	// workspace, where it is set, holds what is checked out, which may come from a stranger's pull request: a link in it
	// that leads out of it is not followed, or it would show a stranger what else is on the machine.
	workspace string
}

var (
	_ fs.ReadDirFS = hostFS{}
	_ fs.StatFS    = hostFS{}
)

// errLeaves says why a link in the workspace is not followed.
var errLeaves = errors.New("it is a link that leaves the workspace")

// files are those of the machine that the run is on.
func (s *session) files() hostFS {
	if !s.runner.Enabled() {
		return hostFS{}
	}
	return hostFS{workspace: s.getenv("GITHUB_WORKSPACE")}
}

// Open implements fs.FS.
func (h hostFS) Open(name string) (fs.File, error) {
	name = filepath.FromSlash(name)
	if h.leaves(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errLeaves}
	}
	return os.Open(name)
}

// ReadDir implements fs.ReadDirFS.
func (h hostFS) ReadDir(name string) ([]fs.DirEntry, error) {
	name = filepath.FromSlash(name)
	if h.leaves(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errLeaves}
	}
	return os.ReadDir(name)
}

// Stat implements fs.StatFS.
func (hostFS) Stat(name string) (fs.FileInfo, error) { return os.Stat(filepath.FromSlash(name)) }

// leaves says whether name is written as a place in the workspace and leads to one outside.
func (h hostFS) leaves(name string) bool {
	written, err := filepath.Abs(name)
	if h.workspace == "" || err != nil || !within(h.workspace, written) {
		return false
	}
	workspace, err := filepath.EvalSymlinks(h.workspace)
	if err != nil {
		return false
	}
	actual, err := filepath.EvalSymlinks(written)
	return err == nil && !within(workspace, actual)
}

// within says whether path is folder or below it.
func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// secretWords are parts of the names of variables that no file may have put into an image reference, since that is sent
// to a registry of the file's choice.
var secretWords = []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "PRIVATE_KEY"}

// variable looks up what a Compose file or a Dockerfile asks for. The runner's own and those that look like secrets are
// not set.
func (s *session) variable(name string) (string, bool) {
	upper := strings.ToUpper(name)
	secret := func(word string) bool { return strings.Contains(upper, word) }
	if strings.HasPrefix(upper, "ACTIONS_") || slices.ContainsFunc(secretWords, secret) {
		return "", false
	}
	return s.LookupEnv(name)
}
