package pin_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/pin"
)

// BenchmarkLoad reads a list of 10,000 pins with digests and lanes, in either grammar.
func BenchmarkLoad(b *testing.B) {
	const pins = 10_000
	var text, yaml strings.Builder
	yaml.WriteString("images:\n")
	for i := range pins {
		ref := fmt.Sprintf("registry-%d.example/team/service-%d:1.%d@%s", i%50, i, i%100, digest.FromString(fmt.Sprint(i)))
		fmt.Fprintf(&text, "%s lanes=*-git,lane-%d\n", ref, i%20)
		fmt.Fprintf(&yaml, "  - ref: %s\n    lanes: ['*-git', lane-%d]\n", ref, i%20)
	}
	files := fstest.MapFS{"images.txt": {Data: []byte(text.String())}, "images.yaml": {Data: []byte(yaml.String())}}
	for _, name := range []string{"images.txt", "images.yaml"} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(files[name].Data)))
			b.ReportAllocs()
			for b.Loop() {
				loaded, err := pin.Load(pin.Options{FS: files, Paths: []string{name}})
				require.NoError(b, err)
				require.Len(b, loaded.Pins, pins)
			}
		})
	}
}
