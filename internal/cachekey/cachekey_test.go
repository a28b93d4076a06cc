package cachekey_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cachekey"
	"github.com/pullonce/pullonce/internal/goldentest"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
)

const (
	one = "@sha256:1111111111111111111111111111111111111111111111111111111111111111"
	two = "@sha256:2222222222222222222222222222222222222222222222222222222222222222"
)

func key(t *testing.T, format cachekey.Format, ref, on, salt string) string {
	t.Helper()
	p, err := platform.Parse(on)
	require.NoError(t, err)
	return format.Key(reference.MustParse(ref), p, salt)
}

// TestKeysAreFrozen: a key that changes turns every entry that is in use into a miss. If this golden file must change,
// so must the format version.
func TestKeysAreFrozen(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	var keys []string
	refs := []string{"redis:7", "redis:7" + one, "redis" + one, "ghcr.io/go-gitea/gitea:1.22", "[::1]:5000/a_b/c.d__e--f:V1"}
	for format, refs := range [][]string{cachekey.V1: refs, cachekey.V2: refs[:1]} {
		for _, ref := range refs {
			for _, on := range []string{"linux/amd64", "linux/arm/v7"} {
				for _, salt := range []string{"", "2"} {
					k := key(t, cachekey.Format(format), ref, on, salt)
					keys = append(keys, k)
					fmt.Fprintf(&b, "%s %s %q\n  %s\n", reference.MustParse(ref), on, salt, k)
				}
			}
		}
	}
	fmt.Fprintf(&b, "all of them\n  %s\nthe first\n  %s\n", cachekey.Set(keys), cachekey.Set(keys[:1]))
	goldentest.Equal(t, "testdata/keys.golden", b.String())
}

func TestKeyChangesWithEachOfItsInputs(t *testing.T) {
	t.Parallel()
	keys := map[string]string{}
	for name, k := range map[string]string{
		"base":               key(t, cachekey.V1, "redis:7", "linux/amd64", ""),
		"tag":                key(t, cachekey.V1, "redis:8", "linux/amd64", ""),
		"digest":             key(t, cachekey.V1, "redis:7"+one, "linux/amd64", ""),
		"other digest":       key(t, cachekey.V1, "redis:7"+two, "linux/amd64", ""),
		"digest without tag": key(t, cachekey.V1, "redis"+one, "linux/amd64", ""),
		"registry":           key(t, cachekey.V1, "ghcr.io/library/redis:7", "linux/amd64", ""),
		"repository":         key(t, cachekey.V1, "bitnami/redis:7", "linux/amd64", ""),
		"os":                 key(t, cachekey.V1, "redis:7", "windows/amd64", ""),
		"architecture":       key(t, cachekey.V1, "redis:7", "linux/arm64", ""),
		"variant":            key(t, cachekey.V1, "redis:7", "linux/amd64/v3", ""),
		"salt":               key(t, cachekey.V1, "redis:7", "linux/amd64", "1"),
		"format":             key(t, cachekey.V2, "redis:7", "linux/amd64", ""),
		"cut name":           key(t, cachekey.V1, strings.Repeat("a", 200)+":7", "linux/amd64", ""),
		"cut os":             key(t, cachekey.V1, "redis:7", strings.Repeat("o", 50)+"/amd64", ""),
		"other cut os":       key(t, cachekey.V1, "redis:7", strings.Repeat("o", 51)+"/amd64", ""),
	} {
		require.NotContains(t, keys, k, "%s and %s", name, keys[k])
		keys[k] = name
	}
}

func TestKeyDoesNotChangeWithSpelling(t *testing.T) {
	t.Parallel()
	want := key(t, cachekey.V1, "redis:7", "linux/arm64", "")
	for _, ref := range []string{"docker.io/redis:7", "library/redis:7", "index.docker.io/library/redis:7"} {
		require.Equal(t, want, key(t, cachekey.V1, ref, "linux/arm64", ""))
	}
	for _, on := range []string{"linux/arm64/v8", "linux/aarch64", "Linux/ARM64"} {
		require.Equal(t, want, key(t, cachekey.V1, "redis:7", on, ""))
	}
	ref := reference.MustParse("redis:7")
	require.Equal(t, want, cachekey.Key(ref, platform.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}, ""), "a platform that was not normalised")
	require.Equal(t, want, cachekey.Format(0).Key(ref, platform.Platform{OS: "linux", Architecture: "arm64"}, ""), "the zero format is version 1")
}

func TestKeysHoldToTheirGrammar(t *testing.T) {
	t.Parallel()
	grammar := regexp.MustCompile(`^pullonce-v[12]-[A-Za-z0-9._-]+-[A-Za-z0-9._-]+-[A-Za-z0-9._-]+-[0-9a-f]{16}$`)
	long := platform.Platform{OS: strings.Repeat("o", 1000), Architecture: strings.Repeat("a", 1000), Variant: strings.Repeat("v", 1000)}
	for _, ref := range []string{"a", "redis:7" + one, strings.Repeat("a", 240), "[::1]:5000/a:1", "a/b/c/d-e_f.g:x"} {
		for _, p := range []platform.Platform{{OS: "linux", Architecture: "amd64"}, long, {OS: "a,b/c", Architecture: "ä\n", Variant: "x y"}} {
			for _, salt := range []string{"", "a,b", strings.Repeat("s", 10_000)} {
				k := cachekey.V2.Key(reference.MustParse(ref), p, salt)
				require.Regexp(t, grammar, k)
				require.LessOrEqual(t, len(k)+len(".3"), 128, "with a generation it is still a tag")
			}
		}
	}
}

func TestSetIsOverTheKeysAndNotTheirOrder(t *testing.T) {
	t.Parallel()
	set := cachekey.Set([]string{"a", "b"})
	require.Regexp(t, `^pullonce-set-[0-9a-f]{16}$`, set)
	keys := []string{"b", "a", "b"}
	require.Equal(t, set, cachekey.Set(keys))
	require.Equal(t, []string{"b", "a", "b"}, keys, "the caller's keys stay as they are")
	for _, other := range [][]string{{"a"}, {"b"}, {"ab"}, {"a", "b", "c"}, {"a,b"}, {"1:a,1:b"}} {
		require.NotEqual(t, set, cachekey.Set(other))
	}
	require.Empty(t, cachekey.Set(nil))
}

func TestAKeyTellsItsPlatformToThoseWhoKnowTheRest(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"linux/amd64", "linux/arm64", "linux/arm/v6", "windows/amd64"} {
		for _, ref := range []string{"redis:7", "ghcr.io/a/linux-amd64:1" + one, "[::1]:5000/a_b/c.d__e--f:V1"} {
			for _, format := range []cachekey.Format{cachekey.V1, cachekey.V2} {
				parsed, ok := format.PlatformOf(key(t, format, ref, on, "s"), reference.MustParse(ref), "s")
				require.True(t, ok, "%s on %s", ref, on)
				require.Equal(t, on, parsed.String())
			}
		}
	}
	redis := reference.MustParse("redis:7")
	for name, k := range map[string]string{
		"tag":        key(t, cachekey.V1, "redis:8", "linux/amd64", "s"),
		"longer":     key(t, cachekey.V1, "redis-linux:7", "linux/amd64", "s"),
		"format":     key(t, cachekey.V2, "redis:7", "linux/amd64", "s"),
		"salt":       key(t, cachekey.V1, "redis:7", "linux/amd64", ""),
		"cut":        "pullonce-v1-redis-linux",
		"no hash":    "pullonce-v1-redis-linux-amd64",
		"other hash": "pullonce-v1-redis-linux-amd64-0123456789abcdef",
		"empty":      "",
	} {
		_, ok := cachekey.V1.PlatformOf(k, redis, "s")
		require.False(t, ok, name)
	}
}

func TestWhatMayBeAKey(t *testing.T) {
	t.Parallel()
	for _, is := range []string{
		key(t, cachekey.V1, "redis:7", "linux/arm/v7", ""), key(t, cachekey.V2, "[::1]:5000/a_b/c.d__e--f:V1", "linux/amd64", "s"),
		key(t, cachekey.V1, "redis:7", "linux/amd64", "") + ".1", "pullonce-v12-redis-linux-amd64-0123456789abcdef",
	} {
		require.True(t, cachekey.IsKey(is), is)
	}
	two := []string{key(t, cachekey.V1, "redis:7", "linux/amd64", ""), key(t, cachekey.V1, "redis:8", "linux/amd64", "")}
	for _, not := range []string{"", "undefined", "null", "redis:7", cachekey.Set(two), strings.Join(two, ","), two[0] + "\n", "x" + two[0]} {
		require.False(t, cachekey.IsKey(not), not)
	}
}
