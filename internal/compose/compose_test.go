package compose_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pullonce/pullonce/internal/compose"
	"github.com/pullonce/pullonce/internal/yamldoc"
)

func TestServicesInOrder(t *testing.T) {
	t.Parallel()
	var got []string
	for d, err := range yamldoc.Documents(strings.NewReader(`
x-base: &base {image: base:1}
services:
  web:
    <<: *base
    pull_policy: always
    volumes:
      - ./x:/y
      - {type: bind, source: /a}
      - {type: image, source: data:1}
  built: {build: ., image: out}
  unbuilt: {build: ~, image: in}
  odd:
`)) {
		require.NoError(t, err)
		for _, s := range compose.Services(d) {
			got = append(got, fmt.Sprintf("%s@%d %s %s %t %d", s.Name, s.At.Line, value(s.Image), value(s.Policy), s.Built, len(s.Volumes)))
		}
	}
	require.Equal(t, []string{"web@4 base:1 always false 1", "built@11 out - true 0", "unbuilt@12 in - false 0", "odd@13 - - false 0"}, got)
}

// value is what stands in n, or "-" where it is nil.
func value(n *yaml.Node) string {
	if n == nil {
		return "-"
	}
	return n.Value
}

func TestEnvironmentOfAFile(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{"a/.env": {Data: []byte("X=file\nY=file\n")}, "bad/.env": {Data: []byte("X='\n")}, "bin/.env": {Data: []byte{0xff}}}
	getenv := func(name string) (string, bool) { return "env", name == "X" }

	lookup, name, err := compose.Environment(fsys, "a", getenv)
	require.NoError(t, err)
	require.Equal(t, "a/.env", name)
	filled, err := compose.Fill("$X-${Y}-${Z:-none}", lookup)
	require.NoError(t, err)
	require.Equal(t, "env-file-none", filled)
	_, err = compose.Fill("$Z", lookup)
	require.EqualError(t, err, "Z is not set and has no default: set it, or render the file first with docker compose config")

	lookup, _, err = compose.Environment(fsys, ".", getenv)
	require.NoError(t, err, "a file may have none beside it")
	_, ok := lookup("Y")
	require.False(t, ok)

	_, _, err = compose.Environment(fsys, "bad", getenv)
	require.ErrorAs(t, err, new(compose.EnvError))
	_, _, err = compose.Environment(fsys, "bin", getenv)
	require.ErrorContains(t, err, "no text in UTF-8")
}
