package pin_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/pin"
)

func TestAnErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"build/app": {Data: []byte("# a comment\nfrom redis:7\n")}}
	tests := []struct {
		name          string
		opts          pin.Options
		message, hint string
	}{
		{"a digest cut short", pin.Options{Images: "redis:7@sha256:abc"}, "invalid reference", "a digest is sha256: and 64 hex digits"},
		{"references with a comma", pin.Options{Images: "redis:7,nginx:1"}, "invalid reference", "one reference a line, or repeat the flag"},
		{"a comma at the end", pin.Options{Images: "redis:7,"}, "invalid reference", "one reference a line, or repeat the flag"},
		{"no reference at all", pin.Options{Images: "-"}, "invalid reference", "write one reference a line, as in redis:7 or ghcr.io/owner/name:1.2"},
		{"what says it by itself", pin.Options{Images: "docker://redis:7"}, `drop "docker://"`, ""},
		{"files with a comma", pin.Options{Paths: []string{"a.txt,b.txt"}}, "no such file", pin.OneEach},
		{"globs with a comma", pin.Options{Paths: []string{"a*,b*"}}, "match", pin.OneEach},
		{"a Dockerfile", pin.Options{Paths: []string{"build/app"}}, "a Dockerfile is no pin list", "compare it with a pin list: pullonce audit --pins images.txt build/app"},
		{"a value in quotes", pin.Options{Images: `redis:7 name="a b"`}, "quotes are not supported in name", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.opts.FS = files
			_, err := pin.Load(tt.opts)
			var found pin.Errors
			require.ErrorAs(t, err, &found)
			require.Len(t, found, 1)
			require.Contains(t, found[0].Message, tt.message)
			require.Equal(t, tt.hint, found[0].Hint)
		})
	}
}

func TestATagWithAndWithoutADigestIsNoted(t *testing.T) {
	t.Parallel()
	const sum = "@sha256:1111111111111111111111111111111111111111111111111111111111111111"
	list, err := pin.Load(pin.Options{
		FS:    fstest.MapFS{"a.txt": {Data: []byte("redis:7" + sum + "\n")}, "b.txt": {Data: []byte("nginx:1\nredis:7\n")}},
		Paths: []string{"a.txt", "b.txt"},
	})
	require.NoError(t, err)
	require.Len(t, list.Pins, 3)
	require.Len(t, list.Notes, 1)
	require.Equal(t, "b.txt:2:1: redis:7 is pinned twice: without a digest here, with one in a.txt:1:1", list.Notes[0].String())
}
