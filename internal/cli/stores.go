package cli

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/store/actions"
	"github.com/pullonce/pullonce/internal/store/dir"
)

// storeDown says that the store that was asked for can't be had here, and what to do. A prime fails of it, a lane goes
// on without.
type storeDown struct{ reason, hint string }

func (e storeDown) Error() string { return e.reason + " (" + e.hint + ")" }

// orNil is the error, or none.
func (e storeDown) orNil(down bool) error {
	if !down {
		return nil
	}
	return e
}

// saved is what a lane knows of the entries that prime saved.
type saved struct {
	keys []string
	wait time.Duration
}

// openStore opens the store that the store option names.
func (s *session) openStore(spec string, known saved) (store.Store, error) {
	if spec == "auto" && !s.runner.Enabled() {
		path, err := s.defaultDir()
		if err != nil {
			return nil, err
		}
		return dir.New(path)
	}
	scheme, address, _ := strings.Cut(spec, ":")
	backends := map[string]func() (store.Store, error){
		"auto":    func() (store.Store, error) { return s.openActions(known) },
		"actions": func() (store.Store, error) { return s.openActions(known) },
		"dir":     func() (store.Store, error) { return openPath(address) },
	}
	open, ok := backends[scheme]
	if !ok || address != "" && scheme != "dir" {
		return nil, usagef("store is auto, actions or dir:PATH", "unknown store %q", spec)
	}
	return open()
}

func openPath(path string) (store.Store, error) {
	if path == "" {
		return nil, usagef("write it as in dir:.pullonce", "store \"dir:\" has no path")
	}
	return dir.New(path)
}

// stagger is the time over which the lanes of a run spread their first look-up: the cache service sheds a matrix that
// asks in one moment.
const stagger = 250 * time.Millisecond

// officialSteps is what to do where the cache service can't be reached from here.
const officialSteps = "use store: dir:.pullonce with the official actions/cache steps around it"

// openActions opens the cache of the workflow.
func (s *session) openActions(known saved) (store.Store, error) {
	token, url := s.getenv("ACTIONS_RUNTIME_TOKEN"), s.getenv("ACTIONS_RESULTS_URL")
	s.runner.Mask(token)
	switch {
	case s.enterpriseServer():
		return nil, storeDown{"GitHub Enterprise Server has version 1 of the cache service only", officialSteps}
	case token == "" || url == "":
		return nil, storeDown{"there is no token for the cache service: a run: step is given none", "start pullonce as the action (uses:), or " + officialSteps}
	}
	opened, err := actions.New(actions.Options{
		ResultsURL: url, Token: token, CacheMode: s.getenv("ACTIONS_CACHE_MODE"), SpoolDir: s.tempDir(), Mask: s.runner.Mask,
		Saved: func(key string) bool { return slices.Contains(known.keys, key) }, VisibilityWait: known.wait, Stagger: stagger,
	})
	if err != nil {
		return nil, storeDown{err.Error(), officialSteps}
	}
	return opened, nil
}

// enterpriseServer says whether the workflow runs on a server of its own: neither github.com nor its data residency.
func (s *session) enterpriseServer() bool {
	server := strings.ToLower(strings.TrimSuffix(cmp.Or(s.getenv("GITHUB_SERVER_URL"), "https://github.com"), "/"))
	return server != "https://github.com" && !strings.HasSuffix(server, ".ghe.com") && !strings.HasSuffix(server, ".localhost")
}

// defaultDir is the store of those who name none: a folder of the user's.
func (s *session) defaultDir() (string, error) {
	base := cmp.Or(s.getenv("XDG_CACHE_HOME"), join(s.getenv("HOME"), ".cache"), s.getenv("LOCALAPPDATA"))
	if base == "" {
		return "", usagef("name one with store: dir:PATH", "there is no cache folder: HOME is not set")
	}
	return filepath.Join(base, "pullonce"), nil
}

// join is filepath.Join for a base that may be missing.
func join(base, name string) string {
	if base == "" {
		return ""
	}
	return filepath.Join(base, name)
}

// openDir opens a store whose entries can be listed and deleted.
func (s *session) openDir(spec string) (*dir.Store, error) {
	opened, err := s.openStore(spec, saved{})
	if down, ok := errors.AsType[storeDown](err); ok {
		return nil, usagef(down.hint, "%s", down.reason)
	}
	if err != nil {
		return nil, err
	}
	entries, ok := opened.(*dir.Store)
	if !ok {
		return nil, usagef("name a store as in dir:PATH", "store %q can't be listed", spec)
	}
	return entries, nil
}
