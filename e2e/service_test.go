//go:build linux

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cachetest"
	"github.com/pullonce/pullonce/internal/report"
)

// service is a cache service with one image that prime and lanes want.
type service struct {
	*cachetest.Server
	*runner
	registry  *registry
	daemon    *daemon
	word      string // what the image says
	reference string
	key       string
}

// Tokens of runs by what they may do: a list of scopes, each with a permission, in a claim.
var (
	readOnlyToken = token(1)
	writingToken  = token(2)
)

func token(permission int) string {
	scopes := fmt.Sprintf(`[{"Scope":"refs/heads/main","Permission":%d}]`, permission)
	claims := `{"ac":` + strconv.Quote(scopes) + `}`
	return "header." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".signature"
}

// prime fills the cache; lane loads what it needs.
func (s *service) prime(t *testing.T, more ...string) step {
	t.Helper()
	return s.run(t, s.inputs("prime", more...))
}

func (s *service) lane(t *testing.T, more ...string) step {
	t.Helper()
	return s.run(t, s.inputs("load", more...))
}

// inputs are those of a mode, with more of them as names and values in turn.
func (s *service) inputs(mode string, more ...string) map[string]string {
	inputs := map[string]string{"mode": mode, "images": s.reference, "timeout": "30s"}
	for i := 0; i+1 < len(more); i += 2 {
		inputs[more[i]] = more[i+1]
	}
	return inputs
}

// primed is a prime for which all goes well.
func (s *service) primed(t *testing.T) {
	t.Helper()
	done := s.prime(t)
	require.Equal(t, 0, done.code)
	require.Equal(t, []report.Source{report.Registry}, done.sources())
	done.requireAnnotations(t)
}

// requireLoaded holds the lane to have the right image, from where it should be, with these annotations.
func (s *service) requireLoaded(t *testing.T, lane step, from report.Source, annotations ...string) {
	t.Helper()
	require.Equal(t, 0, lane.code)
	require.Equal(t, []report.Source{from}, lane.sources())
	require.Equal(t, s.word, s.daemon.run(t, s.reference, busybox, "cat", "/etc/version"))
	result := report.Success
	if from != report.Cache {
		result = report.Degraded
	}
	require.Equal(t, string(result), lane.outputs["result"])
	lane.requireAnnotations(t, annotations...)
}

// requireFailed holds prime to be red, with these annotations.
func requireFailed(t *testing.T, prime step, annotations ...string) {
	t.Helper()
	require.Equal(t, 1, prime.code)
	require.Equal(t, string(report.Failure), prime.outputs["result"])
	prime.requireAnnotations(t, annotations...)
}

// requireSaved holds prime to be green, and the cache to hold exactly these generations of the key.
func (s *service) requireSaved(t *testing.T, prime step, keys ...string) {
	t.Helper()
	require.Equal(t, 0, prime.code)
	require.Equal(t, string(report.Success), prime.outputs["result"])
	s.requireKeys(t, keys...)
	prime.requireAnnotations(t)
}

// requireKeys holds the cache to have exactly these entries.
func (s *service) requireKeys(t *testing.T, keys ...string) {
	t.Helper()
	var saved []string
	for _, e := range s.Entries() {
		saved = append(saved, e.Key)
	}
	require.Equal(t, keys, saved)
}

// bytes are those of the entry.
func (s *service) bytes(key string) (data []byte) {
	s.Spoil(key, func(b []byte) []byte { data = b; return b })
	return data
}

// newService starts an empty cache, and publishes an image that says its word.
func newService(t *testing.T, o cachetest.Options, r *registry, d *daemon, word string) *service {
	t.Helper()
	server, err := cachetest.Start(cachetest.New(o))
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() }) // a test may have closed it
	s := &service{Server: server, registry: r, daemon: d, runner: newRunner(t, map[string]string{
		"ACTIONS_RESULTS_URL": server.URL, "ACTIONS_RUNTIME_TOKEN": cachetest.Token, "DOCKER_HOST": d.host(),
	})}
	s.publish(t, word)
	return s
}

// another is a second image in the same cache.
func (s *service) another(t *testing.T) *service {
	t.Helper()
	other := *s
	other.publish(t, s.word+"-other")
	return &other
}

// publish pushes the image and asks for its key.
func (s *service) publish(t *testing.T, word string) {
	t.Helper()
	s.word, s.reference = word, s.registry.addr+"/e2e/"+word+":1"
	require.NoError(t, s.registry.push(t.Context(), "e2e/"+word+":1", unlike(t, word)))
	planned := s.run(t, map[string]string{"mode": "plan", "images": s.reference})
	var keys []string
	require.NoError(t, json.Unmarshal([]byte(planned.outputs["keys"]), &keys))
	require.Len(t, keys, 1)
	s.key = keys[0]
}

// unlike is an image that says its word. Its first layer is of no other image, so that a daemon wants all of them.
func unlike(t *testing.T, word string) v1.Image {
	t.Helper()
	own, err := writeLayer(filepath.Join(tempDir(t), "own"), text("etc/version", word),
		file{name: "opt/" + word, mode: 0o644, size: 1 << 20, data: newMixed(uint64(len(word)))})
	require.NoError(t, err)
	made, err := assemble(ociTypes, host, own, base(t))
	require.NoError(t, err)
	return made
}
