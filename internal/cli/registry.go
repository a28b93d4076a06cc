package cli

import (
	"cmp"
	"os"
	"strings"
	"time"

	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/retry"
)

// registry makes a client whose pulls may wait and try again for timeout. With spooling, a layer that several images
// share is fetched once, and one that arrives wrong is fetched again.
func (s *session) registry(o registryOptions, timeout time.Duration, spooling bool) (*registry.Client, error) {
	mirrors, err := parseMirrors(o.Mirrors)
	if err != nil {
		return nil, err
	}
	access := s.registryAccess()
	access.Policy, access.Mirrors = retry.Policy{Timeout: timeout}, mirrors
	if spooling {
		access.SpoolDir = s.tempDir()
	}
	return registry.New(access), nil
}

// registryAccess is how this run is with any registry, be it that of an image or that of the store.
func (s *session) registryAccess() registry.Options {
	return registry.Options{
		ConfigDir: cmp.Or(s.getenv("DOCKER_CONFIG"), join(s.getenv("HOME"), ".docker"), join(s.getenv("USERPROFILE"), ".docker")),
		UserAgent: "pullonce/" + version(), Notify: func(e registry.Event) { s.printf("%s", e) }, Secret: s.runner.Mask,
	}
}

// tempDir is where large temporary files go: the job's own folder, else the system's.
func (s *session) tempDir() string { return cmp.Or(s.getenv("RUNNER_TEMP"), os.TempDir()) }

// parseMirrors reads lines of HOST=MIRROR,MIRROR.
func parseMirrors(lines []string) (map[string][]string, error) {
	mirrors := map[string][]string{}
	for _, line := range lines {
		if strings.Contains(line, "@") { // may be a password, so the line is not shown
			return nil, usagef("write the host alone; credentials belong into Docker's configuration: docker login", "invalid mirror: it has an \"@\", and with it credentials")
		}
		host, rest, ok := strings.Cut(line, "=")
		host = strings.TrimSpace(host)
		if !ok || host == "" || strings.TrimSpace(rest) == "" {
			return nil, usagef("write it as in docker.io=mirror.example,other.example", "invalid mirror %q", line)
		}
		for mirror := range strings.SplitSeq(rest, ",") {
			mirror = strings.TrimSpace(mirror)
			if mirror == "" || strings.Contains(mirror, "://") {
				return nil, usagef("a mirror is a host, with a path where it has one, and without a scheme", "invalid mirror %q", line)
			}
			mirrors[host] = append(mirrors[host], mirror)
		}
	}
	return mirrors, nil
}
