package cli

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pullonce/pullonce/internal/retry"
	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/store/actions"
	"github.com/pullonce/pullonce/internal/store/dir"
	"github.com/pullonce/pullonce/internal/store/oci"
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

// storeUse is what a run means to do with a store.
type storeUse struct {
	// saved are the keys that prime says it saved, and visible is how long such an entry may take to show up.
	saved   []string
	visible time.Duration
	// timeout is how long the store may make the run wait and try again; 0 is the default of pulls. A lane leaves most of
	// its time to the pull that helps where the store does not.
	timeout time.Duration
	// reading says that this is a lane, one of many that may begin at this moment.
	reading bool
}

// openStore opens the store that the store option names. It is closed when the run is over.
func (s *session) openStore(spec string, use storeUse) (store.Store, error) {
	if spec == "auto" && !s.runner.Enabled() {
		path, err := s.defaultDir()
		if err != nil {
			return nil, err
		}
		return dir.New(path)
	}
	scheme, address, _ := strings.Cut(spec, ":")
	backends := map[string]func() (store.Store, error){
		"auto":    func() (store.Store, error) { return s.openActions(use) },
		"actions": func() (store.Store, error) { return s.openActions(use) },
		"dir":     func() (store.Store, error) { return openPath(spec, address) },
		"oci":     func() (store.Store, error) { return s.openRegistry(spec, use) },
	}
	open, ok := backends[scheme]
	if !ok || address != "" && scheme != "dir" && scheme != "oci" {
		return nil, usagef("store is auto, actions, dir:PATH or oci://REGISTRY/REPOSITORY", "unknown store %q", spec)
	}
	return open()
}

func openPath(spec, path string) (store.Store, error) {
	if path == "" {
		return nil, usagef("write it as in dir:.pullonce", "store %q has no path", spec)
	}
	return dir.New(path)
}

// openRegistry opens a repository of a registry, with the credentials that pulls have.
func (s *session) openRegistry(spec string, use storeUse) (store.Store, error) {
	repository, ok := strings.CutPrefix(spec, "oci://")
	if !ok {
		return nil, usagef("write it as in oci://ghcr.io/owner/name", "store %q names no repository", spec)
	}
	o := s.registryAccess()
	o.Policy = retry.Policy{Timeout: use.timeout}
	opened, err := oci.New(oci.Options{Repository: repository, Registry: o})
	if err != nil {
		return nil, usagef("write it as in oci://ghcr.io/owner/name", "store %q: %w", spec, err)
	}
	s.atEnd(opened.Close)
	return opened, nil
}

// stagger is the time over which the lanes of a run spread their first look-up, as the cache service sheds a matrix that
// asks in one moment.
const stagger = 150 * time.Millisecond

// officialSteps is what to do where the cache service can't be reached from here.
const officialSteps = "use store: dir:.pullonce with the official actions/cache steps around it"

// openActions opens the cache of the workflow.
func (s *session) openActions(use storeUse) (store.Store, error) {
	token, url := s.getenv("ACTIONS_RUNTIME_TOKEN"), s.getenv("ACTIONS_RESULTS_URL")
	s.runner.Mask(token)
	switch {
	case s.enterpriseServer():
		return nil, storeDown{"GitHub Enterprise Server has version 1 of the cache service only", officialSteps}
	case token == "" || url == "":
		return nil, storeDown{"there is no token for the cache service: a run: step is given none", "start pullonce as the action (uses:), or " + officialSteps}
	}
	spread := time.Duration(0)
	if use.reading {
		spread = stagger
	}
	opened, err := actions.New(actions.Options{
		ResultsURL: url, Token: token, CacheMode: s.getenv("ACTIONS_CACHE_MODE"), SpoolDir: s.tempDir(), Mask: s.runner.Mask,
		Policy: retry.Policy{Timeout: use.timeout},
		Saved:  func(key string) bool { return slices.Contains(use.saved, key) }, VisibilityWait: use.visible, Stagger: spread,
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

// noPlace makes wrong use of a store's word that its place is not there: for inspect and prune a typo is no empty store.
func noPlace(err error) error {
	if errors.Is(err, store.ErrNoPlace) {
		return usageError{err: err, hint: "name the repository that prime wrote to"}
	}
	return err
}

// openManaged opens a store whose entries can be listed and deleted.
//
// A folder that is named must be there: a typo is no empty store.
func (s *session) openManaged(spec string) (store.Managed, error) {
	if path, ok := strings.CutPrefix(spec, "dir:"); ok && path != "" {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return nil, usagef("name the folder that prime wrote to", "store %q: no such folder", spec)
		}
	}
	opened, err := s.openStore(spec, storeUse{})
	if down, ok := errors.AsType[storeDown](err); ok {
		return nil, usagef(down.hint, "%s", down.reason)
	}
	if err != nil {
		return nil, err
	}
	entries, ok := opened.(store.Managed)
	if !ok {
		return nil, usagef("name a store as in dir:PATH or oci://REGISTRY/REPOSITORY", "store %q can't be listed", spec)
	}
	return entries, nil
}
