//go:build linux

package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBench holds the bench itself to what the other tests build on: the images are what they claim, the daemons pull
// and run them, and the access log tells of it.
func TestBench(t *testing.T) {
	forEachEngine(t, func(t *testing.T, d *daemon) {
		f := needImages(t)
		require.Equal(t, []int{3, 6, 10}, []int{f.small.layers, f.medium.layers, f.large.layers})
		r := startRegistry(t, f.storage)
		require.Empty(t, r.requests(t))
		for _, image := range f.all() {
			ref := r.addr + "/" + image.repoTag
			d.docker(t, "pull", "--quiet", ref)
			want := image.config
			if d.containerdStore {
				want = image.root
			}
			require.Equal(t, want.String(), d.id(t, ref))
			d.run(t, ref, busybox, "true")
		}
		require.NotEmpty(t, r.requests(t))
		t.Log(d.docker(t, "image", "ls"))
		d.empty(t)
	})
}
