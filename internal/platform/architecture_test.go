package platform_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/platform"
)

func TestParseRefusesAnArchitectureThatNobodyHas(t *testing.T) {
	t.Parallel()
	_, err := platform.Parse("linux/amd65")
	require.EqualError(t, err, `invalid platform "linux/amd65": unknown architecture "amd65", write it as in linux/amd64 or linux/arm64`)
	for _, known := range []string{"linux/riscv64", "linux/s390x", "linux/ppc64le", "linux/loong64", "windows/amd64", "linux/x86_64", "wasip1/wasm"} {
		_, err := platform.Parse(known)
		require.NoError(t, err, known)
	}
}
