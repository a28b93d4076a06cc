package platform_test

import (
	"encoding/json"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/platform"
)

func TestParseNormalises(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want, dashed string }{
		{"linux/amd64", "linux/amd64", "linux-amd64"},
		{"Linux/X86_64", "linux/amd64", "linux-amd64"},
		{"linux/x86-64", "linux/amd64", "linux-amd64"},
		{"linux/amd64/v1", "linux/amd64", "linux-amd64"},
		{"linux/amd64/v3", "linux/amd64/v3", "linux-amd64-v3"},
		{"linux/arm64", "linux/arm64", "linux-arm64"},
		{"linux/arm64/v8", "linux/arm64", "linux-arm64"},
		{"linux/arm64/8", "linux/arm64", "linux-arm64"},
		{"linux/aarch64", "linux/arm64", "linux-arm64"},
		{"linux/aarch64/v8", "linux/arm64", "linux-arm64"},
		{"linux/arm64/v9", "linux/arm64/v9", "linux-arm64-v9"},
		{"linux/arm", "linux/arm/v7", "linux-arm-v7"},
		{"linux/arm/7", "linux/arm/v7", "linux-arm-v7"},
		{"linux/arm/v6", "linux/arm/v6", "linux-arm-v6"},
		{"linux/armhf", "linux/arm/v7", "linux-arm-v7"},
		{"linux/armel", "linux/arm/v6", "linux-arm-v6"},
		{"linux/i386", "linux/386", "linux-386"},
		{"windows/amd64", "windows/amd64", "windows-amd64"},
		{"linux/s390x", "linux/s390x", "linux-s390x"},
	} {
		t.Run(c.in, func(t *testing.T) {
			t.Parallel()
			p, err := platform.Parse(c.in)
			require.NoError(t, err)
			require.Equal(t, c.want, p.String())
			require.Equal(t, c.dashed, p.Dashed())
			require.Equal(t, p, platform.Normalize(p), "normalising twice is normalising once")
			again, err := platform.Parse(p.String())
			require.NoError(t, err)
			require.Equal(t, p, again)
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "linux", "linux/", "/amd64", "linux//v8", "linux/arm64/v8/x", "linux/am d64", "linux/a,b", "linux/ämd64"} {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			p, err := platform.Parse(in)
			require.ErrorContains(t, err, "write os/arch or os/arch/variant")
			require.True(t, p.IsZero())
		})
	}
}

func TestHostRunsLinuxImages(t *testing.T) {
	t.Parallel()
	host := platform.Host()
	require.Equal(t, "linux", host.OS, "containers are linux on every host that runs them here")
	require.Equal(t, runtime.GOARCH, host.Architecture)
	require.Equal(t, host, platform.Normalize(host))
}

func TestPlatformAsJSON(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(platform.Platform{OS: "linux", Architecture: "arm", Variant: "v6"})
	require.NoError(t, err)
	require.JSONEq(t, `"linux/arm/v6"`, string(data))
	var p platform.Platform
	require.NoError(t, json.Unmarshal([]byte(`"linux/aarch64"`), &p))
	require.Equal(t, platform.Platform{OS: "linux", Architecture: "arm64"}, p)
	require.Error(t, json.Unmarshal([]byte(`"linux"`), &p))
}
