package registry

import (
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/retry"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		have string // entries, by blanks
		want string
		pick int // -1 is none
	}{
		"exact":                        {"linux/arm64 linux/amd64", "linux/amd64", 1},
		"attestations are no images":   {"unknown/unknown linux/amd64 unknown/unknown", "linux/amd64", 1},
		"another system":               {"windows/amd64 linux/arm64", "linux/amd64", -1},
		"arm64 and arm64/v8 are one":   {"linux/amd64 linux/arm64/v8", "linux/arm64", 1},
		"the exact variant":            {"linux/arm/v5 linux/arm/v6 linux/arm/v7", "linux/arm/v6", 1},
		"the newest that runs":         {"linux/arm/v5 linux/arm/v6 linux/arm64", "linux/arm/v7", 1},
		"a newer variant does not run": {"linux/arm/v7", "linux/arm/v6", -1},
		"amd64 levels":                 {"linux/amd64 linux/amd64/v2 linux/amd64/v4", "linux/amd64/v3", 1},
		"plain amd64 takes plain":      {"linux/amd64/v2 linux/amd64", "linux/amd64", 1},
		"the first of equals":          {"linux/amd64 linux/amd64", "linux/amd64", 0},
		"one without platform":         {"- unknown/unknown", "linux/amd64", 0},
		"two without platform":         {"- -", "linux/amd64", -1},
		"another variant, unordered":   {"linux/mips/softfloat", "linux/mips/hardfloat", -1},
		"none at all":                  {"", "linux/amd64", -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries := entriesFor(tc.have)
			want, err := platform.Parse(tc.want)
			require.NoError(t, err)
			got, ok := choose(entries, want)
			require.Equal(t, tc.pick >= 0, ok)
			if ok {
				require.Equal(t, entries[tc.pick], got)
			}
		})
	}
}

func TestOfferedNamesEachPlatformOnce(t *testing.T) {
	t.Parallel()
	require.Equal(t, "linux/amd64, linux/arm64", offered(entriesFor("linux/amd64 linux/arm64/v8 unknown/unknown linux/arm64")))
	require.Equal(t, "no platform", offered(nil))
}

func TestOfferedIsShortWhateverTheIndexHas(t *testing.T) {
	t.Parallel()
	var entries []ocispec.Descriptor
	for i := range maxEntries {
		entries = append(entries, ocispec.Descriptor{Platform: &ocispec.Platform{OS: "linux\n::error::", Architecture: strings.Repeat("x", i)}})
	}
	text := offered(entries)
	require.LessOrEqual(t, strings.Count(text, ", "), maxOffered)
	require.True(t, strings.HasSuffix(text, ", …"))
	require.NotContains(t, text, "\n")
	require.LessOrEqual(t, len(offered(entries[maxEntries-1:])), maxText+len("…"))
}

func TestAnIndexBeyondAllBoundsIsRefusedForGood(t *testing.T) {
	t.Parallel()
	root := document{mediaType: ocispec.MediaTypeImageIndex, data: []byte(`{"manifests":[{}` + strings.Repeat(",{}", maxEntries) + `]}`)}
	_, err := (&fetch{}).manifest(t.Context(), root, platform.Platform{OS: "linux", Architecture: "amd64"})
	require.EqualError(t, err, "reading the index: it has 1001 entries, and 1000 are the most")
	class, _ := retry.ClassOf(err)
	require.Equal(t, retry.Permanent, class)
}

// entriesFor makes an index; the size tells the entries apart, and "-" has no platform.
func entriesFor(list string) []ocispec.Descriptor {
	var entries []ocispec.Descriptor
	for i, word := range strings.Fields(list) {
		d := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Size: int64(i)}
		if parts := strings.Split(word, "/"); word != "-" {
			d.Platform = &ocispec.Platform{OS: parts[0], Architecture: parts[1], Variant: strings.Join(parts[2:], "")}
		}
		entries = append(entries, d)
	}
	return entries
}
