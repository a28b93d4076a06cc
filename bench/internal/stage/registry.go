//go:build linux

package stage

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/pullonce/pullonce/bench/internal/link"
)

// Registry is a registry process on loopback, without a limit.
type Registry struct {
	*process
	// Addr is its host and port.
	Addr   string
	fences int
}

var (
	// listening is how the registry tells the port that it was given.
	listening = regexp.MustCompile(`listening on (127\.0\.0\.1:[1-9][0-9]*)`)
	// access is a line of its log, in the combined format: the request, the status and the bytes of the answer.
	access = regexp.MustCompile(`"[A-Z]+ (\S+) HTTP/[0-9.]+" \d+ (\d+)`)
)

// StartRegistry serves a storage folder; what it writes besides is in dir. The program is found on path.
func StartRegistry(ctx context.Context, program, path, dir, storage string) (*Registry, error) {
	config := filepath.Join(dir, "registry.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: info}\nhttp: {addr: \"127.0.0.1:0\"}\nstorage: {filesystem: {rootdirectory: %q}}\n", storage)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, err
	}
	p, err := launch(dir, "registry", []string{"PATH=" + path}, program, "serve", config)
	if err != nil {
		return nil, err
	}
	r := &Registry{process: p}
	err = p.await(ctx, "the registry listens", func() bool {
		log, _ := os.ReadFile(p.base + ".err") // not yet there is not yet listening
		if found := listening.FindSubmatch(log); found != nil {
			r.Addr = string(found[1])
		}
		return r.Addr != ""
	})
	if err != nil {
		_ = p.stop() // what went wrong before says more
		return nil, err
	}
	return r, nil
}

// Counts are what it was asked for and what it answered, by its log so far. The registry writes a line when it has answered, so a request of ours is sent after
// all others and waited for. Ours are not counted.
func (r *Registry) Counts(ctx context.Context) (link.Counts, error) {
	r.fences++
	fence := fmt.Sprintf("/v2/?fence=%d", r.fences)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Addr+fence, nil)
	if err != nil {
		return link.Counts{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return link.Counts{}, fmt.Errorf("asking the registry: %w", err)
	}
	resp.Body.Close()
	var log []byte
	err = r.await(ctx, "the registry's log is whole", func() bool {
		log, err = os.ReadFile(r.base + ".out")
		return err != nil || bytes.Contains(log, []byte(fence+" "))
	})
	return countAccess(log), err
}

func countAccess(log []byte) link.Counts {
	var c link.Counts
	for _, line := range access.FindAllSubmatch(log, -1) {
		if bytes.Contains(line[1], []byte("?fence=")) {
			continue
		}
		c.Requests++
		n, _ := strconv.ParseInt(string(line[2]), 10, 64) // digits, by the pattern
		c.Down += n
	}
	return c
}

// Close ends it.
func (r *Registry) Close() error { return r.stop() }
