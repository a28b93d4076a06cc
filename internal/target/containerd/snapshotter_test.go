package containerd

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSnapshotterOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ config, want string }{
		"version 3":       {"version = 3\n[plugins]\n  [plugins.'io.containerd.cri.v1.images']\n    snapshotter = 'native'\n", "native"},
		"version 2":       {"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n  snapshotter = \"fuse-overlayfs\"\n", "fuse-overlayfs"},
		"version 1":       {"[plugins.cri.containerd]\nsnapshotter = \"zfs\"\n", "zfs"},
		"a runtime's own": {"version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\nsnapshotter = 'x'\n", ""},
		"not set":         {"version = 2\n", ""},
		"nothing":         {"", ""},
		"no TOML":         {"containerd: command not found [", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, snapshotterOf(test.config))
		})
	}
}
