//go:build linux

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
)

// registry is a docker-registry on loopback. Several may serve one storage folder, one after the other or at once:
// each has its own address and its own access log.
type registry struct {
	*process
	addr   string
	fences int
}

// listening is how docker-registry tells the port that it was given.
var listening = regexp.MustCompile(`listening on (127\.0\.0\.1:[1-9][0-9]*)`)

// startRegistry serves the storage folder until the test ends.
func startRegistry(t *testing.T, storage string) *registry {
	t.Helper()
	r, err := launchRegistry(tempDir(t), storage)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.stop()) })
	return r
}

func launchRegistry(dir, storage string) (*registry, error) {
	return launchRegistryAs(dir, "docker-registry", fmt.Sprintf("storage: {filesystem: {rootdirectory: %q}}\n", storage))
}

// launchRegistryAs starts a program that is configured as docker-registry is, with some more of a configuration.
func launchRegistryAs(dir, program, more string) (*registry, error) {
	config := filepath.Join(dir, "registry.yml")
	head := "version: 0.1\nlog: {level: info}\nhttp: {addr: \"127.0.0.1:0\"}\n"
	if err := os.WriteFile(config, []byte(head+more), 0o644); err != nil {
		return nil, err
	}
	p, err := launch(dir, "registry", []string{"PATH=" + os.Getenv("PATH")}, program, "serve", config)
	if err != nil {
		return nil, err
	}
	deadline := time.After(patience)
	for {
		log, err := os.ReadFile(p.base + ".err")
		if err != nil {
			return nil, err
		}
		if m := listening.FindSubmatch(log); m != nil {
			return &registry{process: p, addr: string(m[1])}, nil
		}
		select {
		case <-p.done:
			return nil, fmt.Errorf("docker-registry ended at once:\n%s", log)
		case <-deadline:
			return nil, fmt.Errorf("docker-registry did not listen:\n%s", log)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// requests is the access log so far, one line a request, complete: the registry writes a line when it has answered, so
// a request of ours is sent after all others and waited for. Ours are left out.
func (r *registry) requests(t *testing.T) []string {
	t.Helper()
	r.fences++
	fence := fmt.Sprintf("/v2/?fence=%d", r.fences)
	resp, err := http.Get("http://" + r.addr + fence)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	var log string
	r.eventually(t, "the access log has "+fence, func() bool {
		data, err := os.ReadFile(r.base + ".out")
		require.NoError(t, err)
		log = string(data)
		return strings.Contains(log, fence+" ")
	})
	var lines []string
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "/v2/?fence=") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// push publishes what, an image or an index, under "repository:tag".
func (r *registry) push(ctx context.Context, repoTag string, what remote.Taggable) error {
	ref, err := name.ParseReference(r.addr + "/" + repoTag)
	if err != nil {
		return err
	}
	pusher, err := remote.NewPusher()
	if err != nil {
		return err
	}
	if err := pusher.Push(ctx, ref, what); err != nil {
		return fmt.Errorf("pushing %s: %w", repoTag, err)
	}
	return nil
}
