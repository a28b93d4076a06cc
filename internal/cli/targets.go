package cli

import (
	"errors"
	"strings"

	"github.com/pullonce/pullonce/internal/lane"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/docker"
)

// targets are those that the into option names, each once.
func (s *session) targets(into []string) ([]lane.Target, error) {
	backends := map[string]func(address string) (target.Target, error){
		"docker": func(string) (target.Target, error) { return docker.New(docker.Options{Getenv: s.getenv}) },
		"none":   func(string) (target.Target, error) { return target.None{}, nil },
	}
	var targets []lane.Target
	seen := map[string]bool{}
	for _, name := range into {
		if seen[name] {
			continue
		}
		seen[name] = true
		scheme, address, _ := strings.Cut(name, ":")
		open, ok := backends[scheme]
		if !ok {
			return nil, usagef("into is docker or none", "unknown target %q", name)
		}
		t, err := open(address)
		if errors.Is(err, target.ErrUnavailable) {
			t, err = target.Unavailable{Err: err}, nil
		}
		if err != nil {
			return nil, err
		}
		targets = append(targets, lane.Target{Name: name, Target: t})
	}
	return targets, nil
}
