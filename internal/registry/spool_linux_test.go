package registry_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
)

// spooled are the files of this process that were made in dir and have no name any more.
func spooled(t *testing.T, dir string) (n int) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range open {
		name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%s", fd.Name()))
		if err == nil && strings.HasPrefix(name, dir+"/") && strings.HasSuffix(name, " (deleted)") {
			n++
		}
	}
	return n
}

// What has no name is gone with its process, however that ends.
func TestSpooledLayersHaveNoNamesAndGoWithTheirPulls(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := sharing()
	c := client(t, r, registry.Options{SpoolDir: dir, Policy: quick})
	var pulls []*registry.Pull
	for _, name := range []string{"a", "b"} {
		pull, err := c.Pull(t.Context(), reference.MustParse("registry.example/"+name+":1"), amd64)
		require.NoError(t, err)
		_, err = pull.Image.AtHand(t.Context())
		require.NoError(t, err)
		pulls = append(pulls, pull)
	}
	require.Empty(t, files(t, dir))
	require.Equal(t, 3, spooled(t, dir))
	require.NoError(t, pulls[0].Close())
	require.Equal(t, 2, spooled(t, dir), "what another pull wants stays")
	readLayers(t, pulls[1].Image)
	require.NoError(t, c.Close())
	require.Zero(t, spooled(t, dir))
	require.NoError(t, pulls[1].Close())
}
