package reference_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/reference"
)

const (
	hex64  = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	digest = "sha256:" + hex64
)

func TestParseGivesTheCanonicalForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, canonical, familiar string }{
		{"redis", "docker.io/library/redis:latest", "redis:latest"},
		{"redis:7", "docker.io/library/redis:7", "redis:7"},
		{"docker.io/redis:7", "docker.io/library/redis:7", "redis:7"},
		{"docker.io/library/redis:7", "docker.io/library/redis:7", "redis:7"},
		{"index.docker.io/redis:7", "docker.io/library/redis:7", "redis:7"},
		{"index.docker.io/library/redis:7", "docker.io/library/redis:7", "redis:7"},
		{"library/redis:7", "docker.io/library/redis:7", "redis:7"},
		{"bitnami/redis:7", "docker.io/bitnami/redis:7", "bitnami/redis:7"},
		{"redis@" + digest, "docker.io/library/redis@" + digest, "redis@" + digest},
		{"redis:7@" + digest, "docker.io/library/redis:7@" + digest, "redis:7@" + digest},
		{"a", "docker.io/library/a:latest", "a:latest"},
		{"a:b", "docker.io/library/a:b", "a:b"},
		{"a.b/c:1", "a.b/c:1", "a.b/c:1"},
		{"host:5000/x:1", "host:5000/x:1", "host:5000/x:1"},
		{"[::1]:5000/a:1", "[::1]:5000/a:1", "[::1]:5000/a:1"},
		{"localhost/x:1", "localhost/x:1", "localhost/x:1"},
		{"127.0.0.1:5000/x@" + digest, "127.0.0.1:5000/x@" + digest, "127.0.0.1:5000/x@" + digest},
		{"redis:V7.2-Alpine_x", "docker.io/library/redis:V7.2-Alpine_x", "redis:V7.2-Alpine_x"},
		// Short forms that would be another repository stay long.
		{"docker.io/foo.bar/x:1", "docker.io/foo.bar/x:1", "docker.io/foo.bar/x:1"},
		{"docker.io/localhost/x:1", "docker.io/localhost/x:1", "docker.io/localhost/x:1"},
		{"docker.io/docker.io/x:1", "docker.io/docker.io/x:1", "docker.io/docker.io/x:1"},
		{"docker.io/library/a/b:1", "docker.io/library/a/b:1", "library/a/b:1"},
		{"docker.io/library/" + hex64, "docker.io/library/" + hex64 + ":latest", hex64 + ":latest"},
	} {
		t.Run(c.in, func(t *testing.T) {
			t.Parallel()
			ref, err := reference.Parse(c.in)
			require.NoError(t, err)
			require.Equal(t, c.canonical, ref.String())
			require.Equal(t, c.familiar, ref.Familiar())
			for _, spelling := range []string{c.canonical, c.familiar} {
				again, err := reference.Parse(spelling)
				require.NoError(t, err)
				require.Equal(t, ref, again, "%q parses back", spelling)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", "empty reference"},
		{"white space", "redis :7", "white space inside"},
		{"no-break space", "redis\u00a0:7", "white space inside"},
		{"a line break", "redis:7\n", "white space inside"},
		{"a scheme", "docker://redis:7", `drop "docker://" and write "redis:7"`},
		{"a URL", "https://ghcr.io/a/b:1", `drop "https://"`},
		{"an empty segment", "foo//bar:1", "invalid reference"},
		{"an upper case namespace", "Foo/bar:1", "upper case"},
		{"an upper case name", "redIs:7", "upper case"},
		{"an upper case registry", "GHCR.io/a/b:1", "upper case"},
		{"an upper case registry with a port", "HOST:5000/b:1", "upper case"},
		{"an upper case repository with a digest", "Redis@" + digest, "upper case"},
		{"a tag with a leading dash", "redis:-7", "invalid reference"},
		{"an empty tag", "redis:", "invalid reference"},
		{"two tags", "redis:7:8", "invalid reference"},
		{"an empty digest", "redis@", "invalid reference"},
		{"a short digest", "redis@sha256:abc", "invalid reference"},
		{"an upper case digest", "redis@sha256:" + strings.ToUpper(hex64), "invalid"},
		{"a digest before the tag", "redis@" + digest + ":7", "invalid reference"},
		{"sha512", "redis@sha512:" + hex64 + hex64, "sha256"},
		{"an image id", hex64, "invalid reference"},
		{"a long tag", "redis:" + strings.Repeat("a", 129), "invalid reference"},
		{"a long name", strings.Repeat("a", 256), "invalid reference"},
		{"a comma", "redis:7,", "invalid reference"},
		{"a tag of another script", "redis:ä", "invalid reference"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ref, err := reference.Parse(c.in)
			require.ErrorContains(t, err, c.want)
			require.True(t, ref.IsZero())
		})
	}
}

func TestPartsOfAReference(t *testing.T) {
	t.Parallel()
	ref := reference.MustParse("[::1]:5000/team/redis:7@" + digest)
	require.Equal(t, "[::1]:5000", ref.Domain())
	require.Equal(t, "team/redis", ref.Path())
	require.Equal(t, "redis", ref.Base())
	require.Equal(t, "7", ref.Tag())
	require.Equal(t, digest, ref.Digest().String())
	require.Equal(t, "[::1]:5000/team/redis", ref.Repository())
	require.Equal(t, "[::1]:5000/team/redis:7", ref.Tagged())
	require.Equal(t, "[::1]:5000/team/redis@sha256:x", ref.WithDigest("sha256:x"))
	require.Empty(t, reference.MustParse("redis@"+digest).Tagged(), "no tag is invented for a digest")
	require.Equal(t, "redis", reference.MustParse("redis:7").Base())
}

func TestMustParsePanicsOnAnInvalidConstant(t *testing.T) {
	t.Parallel()
	require.Panics(t, func() { reference.MustParse("redis :7") })
}

func TestReferenceAsJSON(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(reference.MustParse("redis:7"))
	require.NoError(t, err)
	require.JSONEq(t, `"docker.io/library/redis:7"`, string(data))
	var back reference.Reference
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, reference.MustParse("redis:7"), back)
	require.ErrorContains(t, json.Unmarshal([]byte(`"redis :7"`), &back), "white space")
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"redis", "redis:7@" + digest, "index.docker.io/redis", "docker.io/foo.bar/x:1", "docker.io/localhost/x",
		"[::1]:5000/a:1", "docker.io/library/a/b", "docker://redis:7", "Foo/bar:1", "redis:-7", "a@b:c/d",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := reference.Parse(s)
		if err != nil {
			require.True(t, ref.IsZero())
			return
		}
		require.NotEqual(t, "index.docker.io", ref.Domain())
		for _, spelling := range []string{ref.String(), ref.Familiar()} {
			again, err := reference.Parse(spelling)
			require.NoError(t, err, "%q of %q", spelling, s)
			require.Equal(t, ref, again, "%q of %q", spelling, s)
		}
	})
}
