package cli

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/pullonce/pullonce/internal/store"
	"github.com/pullonce/pullonce/internal/store/dir"
)

// openStore opens the store that the store option names.
func (s *session) openStore(spec string) (store.Store, error) {
	if spec == "auto" {
		path, err := s.defaultDir()
		if err != nil {
			return nil, err
		}
		return dir.New(path)
	}
	open, err := storeOf(spec)
	if err != nil {
		return nil, err
	}
	return open()
}

// storeOf picks the back end by the word before the colon.
func storeOf(spec string) (func() (store.Store, error), error) {
	scheme, address, _ := strings.Cut(spec, ":")
	backends := map[string]func() (store.Store, error){
		"dir": func() (store.Store, error) { return dir.New(address) },
	}
	open, ok := backends[scheme]
	if !ok {
		return nil, usagef("store is auto or dir:PATH", "unknown store %q", spec)
	}
	if address == "" {
		return nil, usagef("write it as in dir:.pullonce", "store %q has no path", spec)
	}
	return open, nil
}

// defaultDir is the store of those who name none: a folder of the user's. In a workflow it would be lost with the job.
func (s *session) defaultDir() (string, error) {
	if s.runner.Enabled() {
		return "", usagef("use store: dir:.pullonce with the official actions/cache steps around it", "store: auto has no store in this workflow")
	}
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
	opened, err := s.openStore(spec)
	if err != nil {
		return nil, err
	}
	entries, ok := opened.(*dir.Store)
	if !ok {
		return nil, usagef("name a store as in dir:PATH", "store %q can't be listed", spec)
	}
	return entries, nil
}
