package dockerfile_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/dockerfile"
)

func TestUses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"plain", "FROM redis:7", "1:6 redis:7"},
		{"lower case", "from redis:7\n", "1:6 redis:7"},
		{"scratch", "FROM scratch\nCOPY a b\n", ""},
		{"platform", "FROM --platform=$BUILDPLATFORM golang:1.26 AS build\n", "1:32 golang:1.26"},
		{"stage", "FROM a:1 AS base\nFROM Base AS next\nFROM next\n", "1:6 a:1"},
		{"stage that comes later", "FROM later\nFROM a:1 AS later\n", "1:6 later, 2:6 a:1"},
		{"copy from image, stage and number", "FROM a:1 AS b\nCOPY --link --from=c:1 /x /y\nCOPY --from=b x y\nCOPY --from=0 x y\nCOPY --from=7 x y\n", "1:6 a:1, 2:20 c:1, 5:13 7"},
		{"copy without a flag", "FROM a:1\nCOPY x --from=b:1 y\n", "1:6 a:1"},
		{"mount", "FROM a:1\nRUN --mount=type=bind,from=b:1,target=/x --mount=type=cache,target=/y make\n", "1:6 a:1, 2:28 b:1"},
		{"argument", "ARG V=1.26\nARG IMAGE=golang:${V}\nFROM ${IMAGE}-alpine\n", "3:6 golang:1.26-alpine"},
		{"quoted argument", "ARG V=\"1\" W='2'\nFROM a:$V-$W\n", "2:6 a:1-2"},
		{"argument in place", "FROM a:${V:-3}\n", "1:6 a:3"},
		{"argument without a default", "ARG V\nFROM a:$V\nFROM b:1\n", "2:6 a:$V! V is not set and has no default, 3:6 b:1"},
		{"argument of a stage", "FROM a:1\nARG V=2\nFROM b:$V\n", "1:6 a:1, 3:6 b:$V! V is not set and has no default"},
		{"stage by architecture", "FROM a:1 AS base-amd64\nFROM b:1 AS base-arm64\nFROM base-${TARGETARCH}\n", "1:6 a:1, 2:6 b:1"},
		{"syntax", "# syntax=docker/dockerfile:1.7\n# escape=`\nFROM a:1 `\n  AS b\nFROM b\n", "1:10 docker/dockerfile:1.7, 3:6 a:1"},
		{"no directive any more", "# about\n# syntax=x/y:1\nFROM a:1\n", "3:6 a:1"},
		{"continued lines", "FROM \\\n  # why\n\n  --platform=linux/amd64 \\  \n\ta:1 \\\n  AS b\nCOPY --chown=1 \\\n --from=c:1 x y", "5:2 a:1, 8:9 c:1"},
		{"here-documents", "FROM a:1\nRUN <<EOF cat <<-\"XY\"\nFROM no:1\nEOF\n\tFROM no:2\n\tXY\nRUN <<-X\nFROM no:3\n\tX\nFROM b:1", "1:6 a:1, 10:6 b:1"},
		{"words in a shell are none", "FROM a:1\nRUN echo $((1<<3)) << x\nFROM b:1\n", "1:6 a:1, 3:6 b:1"},
		{"CRLF and a byte order mark", "\uFEFFFROM a:1\r\nRUN <<E\r\nFROM no\r\nE\r\nFROM b:1 \\\r\n AS c\r\nFROM c\r\n", "1:6 a:1, 5:6 b:1"},
		{"columns count characters", "ARG Ä=1\nFROM --platform=ä a:1\n", "2:19 a:1"},
		{"digest", "FROM a:1@sha256:x\n", "1:6 a:1@sha256:x"},
		{"nothing behind", "FROM\nFROM a:1", "2:6 a:1"},
		{"onbuild is the child's", "FROM a:1\nONBUILD COPY --from=b:1 x y", "1:6 a:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			uses, err := dockerfile.Uses(strings.NewReader(c.text))
			require.NoError(t, err)
			var got []string
			for _, u := range uses {
				if u.Err != nil {
					u.Image = fmt.Sprintf("%s! %v", u.Written, u.Err)
				}
				got = append(got, fmt.Sprintf("%d:%d %s", u.Line, u.Column, u.Image))
			}
			require.Equal(t, c.want, strings.Join(got, ", "))
		})
	}
}

func TestWhatIsNoDockerfile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "no FROM", "a: b\n": "no FROM", "FROM a\n\xff": "no text in UTF-8", "FROM a\n" + strings.Repeat("x", 2<<20): "more than 1 MiB",
	} {
		_, err := dockerfile.Uses(strings.NewReader(text))
		require.ErrorContains(t, err, want)
	}
	broken := errors.New("broken")
	_, err := dockerfile.Uses(iotest.ErrReader(broken))
	require.ErrorIs(t, err, broken)
}
